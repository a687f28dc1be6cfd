package forward

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/node-dns/node-dns/internal/journal"
	"github.com/node-dns/node-dns/internal/nameserver"
)

// A server is one upstream nameserver and what is known about it. One server
// value serves all routes that have its address.
type server struct {
	nameserver.Server
	log     *slog.Logger
	news    func()   // is called after the log has told of a change
	changed func()   // is called after every change
	tls     *channel // nil for a plain server

	queries atomic.Uint64 // messages sent, and connections begun

	mu     sync.Mutex // guards health
	health health
}

func newServer(address nameserver.Server, f *Forward) *server {
	s := &server{
		Server: address, log: f.log, news: f.tellOutages, changed: f.changed,
		health: health{state: Unknown, since: time.Now()},
	}
	if address.TLS {
		s.tls = newChannel(address, f)
	}
	return s
}

// retire lets the connection end as soon as nobody waits on it.
func (s *server) retire() {
	if s.tls != nil {
		s.tls.retire()
	}
}

// close ends the connection, and one that is being made.
func (s *server) close() {
	if s.tls != nil {
		s.tls.close()
	}
}

func (s *server) sent() { s.queries.Add(1) }

// succeeded accounts for a response, whatever it says: who refuses is there.
func (s *server) succeeded(rtt time.Duration) {
	s.account(func(h *health, now time.Time) { h.succeeded(rtt, now) })
}

// answered is succeeded for a response that is final, and hasOPT if it has an OPT record.
func (s *server) answered(rtt time.Duration, rcode int, hasOPT bool) {
	s.account(func(h *health, now time.Time) {
		h.succeeded(rtt, now)
		h.heard(rcode, true)
		if hasOPT {
			h.sawEDNS()
		}
	})
}

// failed accounts for a try that ended with err. Faults of this host do not count.
func (s *server) failed(err error) {
	if !isLocal(err) {
		s.account(func(h *health, now time.Time) { h.failed(shortReason(err), isSilence(err), now) })
	}
}

// account changes the account, and logs a change of state.
func (s *server) account(change func(h *health, now time.Time)) {
	s.mu.Lock()
	now, before := time.Now(), s.health.state
	change(&s.health, now)
	isNew := s.health.state != before
	state, changes := s.health.tell(now)
	rtt, reason := s.health.rtt, s.health.lastError
	s.mu.Unlock()
	if isNew {
		s.changed()
	}
	if state != "" {
		s.tell(state, changes, reason, rtt)
	}
}

func (s *server) tell(state State, changes int, reason string, rtt time.Duration) {
	log := s.log.With("server", s.Server.String())
	if changes > 1 {
		log = log.With("changes", changes)
	}
	if state == Up {
		log.Info("upstream up", "rtt", rtt, journal.UpstreamUp.Attr())
	} else {
		log.Warn("upstream down", "error", reason, "rtt", rtt, journal.UpstreamDown.Attr())
	}
	s.news()
}

// timedOut accounts for a try that got no response in time. It may still come.
func (s *server) timedOut(after time.Duration) {
	s.failed(errTimeout)
	if s.tls != nil {
		s.tls.suspect(after)
	}
}

func (s *server) isDown() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.health.state == Down
}

// laneState says whether a lane may ask a server.
type laneState int

const (
	laneNow   laneState = iota
	laneSkip            // it is down: the next one's turn
	laneNever           // there is more to do than to ask it
)

func (s *server) laneState(now time.Time) laneState {
	if s.tls != nil || s.Interface != "" || s.Source.IsValid() || s.Addr.Addr().Zone() != "" {
		return laneNever
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.health.state == Down && !s.health.probing && !now.Before(s.health.nextProbe), !s.health.useEDNS(false, now):
		return laneNever
	case s.health.state == Down:
		return laneSkip
	}
	return laneNow
}

func (s *server) startProbe() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.health.startProbe(time.Now())
}

func (s *server) startCheck() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.health.startCheck(time.Now())
}

func (s *server) endCheck(silent bool) {
	s.learn(func(h *health) { h.checking, h.silentToCheck = false, silent })
}

func (s *server) endProbe() { s.learn(func(h *health) { h.probing = false }) }

// form is how a question to the server is written.
func (s *server) form(again bool) form {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !s.health.useEDNS(again && s.tls == nil, time.Now()):
		return withoutEDNS
	case s.tls != nil:
		return padded
	}
	return withEDNS
}

// learn changes what is known about the server otherwise than by its successes.
func (s *server) learn(change func(*health)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.health)
}

// byHealth returns the servers in the order in which they are asked: as they were
// configured, those that are down behind all others. It returns the argument
// itself when there is nothing to change.
func byHealth(servers []*server) (order, down []*server) {
	for i, s := range servers {
		if !s.isDown() {
			if down != nil {
				order = append(order, s)
			}
			continue
		}
		if down == nil {
			order = append(make([]*server, 0, len(servers)), servers[:i]...)
		}
		down = append(down, s)
	}
	if down == nil {
		return servers, nil
	}
	return append(order, down...), down
}
