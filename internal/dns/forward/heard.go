package forward

import (
	"time"

	"github.com/node-dns/node-dns/internal/dns/exchange"
	"github.com/node-dns/node-dns/internal/dns/health"
	"github.com/node-dns/node-dns/internal/sys/journal"
)

// sent is called when a question goes to the server.
func (s *server) sent() {
	s.queries.Add(1)
	if u := s.upgrade.Load(); u != nil {
		u.Prepare()
	}
}

// succeeded accounts for a response, whatever it says: a server that refuses is there.
func (s *server) succeeded(rtt time.Duration, rcode int) {
	s.follow(s.Succeeded(rtt, rcode, time.Now()))
}

// answered is succeeded for a response that came now and is final, and hasOPT if it has an OPT record.
func (s *server) answered(now time.Time, rtt time.Duration, rcode int, hasOPT bool) {
	s.follow(s.Answered(rtt, rcode, hasOPT, now))
}

// heardOverTCP accounts for a response whose time was not measured.
func (s *server) heardOverTCP() { s.follow(s.Heard(time.Now())) }

// failed accounts for a try that ended with err. Faults of this host do not count.
func (s *server) failed(err error) {
	if !exchange.IsLocal(err) {
		s.follow(s.Failed(exchange.Reason(err), exchange.IsSilence(err), time.Now()))
	}
}

// failedAgain is failed for a try that was counted as overdue.
func (s *server) failedAgain(err error) {
	if !exchange.IsLocal(err) {
		s.follow(s.FailedAgain(exchange.Reason(err), exchange.IsSilence(err), time.Now()))
	}
}

// follow reports and logs a change.
func (s *server) follow(c health.Change) {
	if c.IsShift {
		s.shifted()
	}
	if c.IsNew {
		s.changed()
	}
	if c.Told != "" {
		s.tell(c)
	}
}

func (s *server) tell(c health.Change) {
	log := s.log.With("server", s.Server.String())
	if c.Changes > 1 {
		log = log.With("changes", c.Changes)
	}
	if c.Told == health.Up {
		log.Info("upstream up", "rtt", c.RTT, journal.UpstreamUp.Attr())
	} else {
		log.Warn("upstream down", "error", c.Reason, "rtt", c.RTT, journal.UpstreamDown.Attr())
	}
	s.news()
}

// timedOut accounts for a try that got no response in time. It may still come.
func (s *server) timedOut(after time.Duration) {
	s.failed(exchange.ErrTimeout)
	if s.tls != nil {
		s.tls.Suspect(after)
	}
}

// setUpgrade adds or removes the upgrade, by the setting. The caller holds Forward.setting.
func (s *server) setUpgrade(f *Forward) {
	switch u := s.upgrade.Load(); {
	case f.opportunistic && u == nil:
		if addr, ok := f.tlsAddr(s.Server); ok && !s.TLS {
			s.upgrade.Store(f.dialer.Opportunistic(s.Server, addr))
		}
	case !f.opportunistic && u != nil:
		s.upgrade.Store(nil)
		u.Retire()
	}
}
