package forward

import (
	"log/slog"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/node-dns/node-dns/internal/dns/exchange"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
	"github.com/node-dns/node-dns/internal/sys/journal"
)

// A server is one upstream nameserver and its state. All routes with the same address share one
// server value.
type server struct {
	nameserver.Server
	handle  nameserver.Handle // of Server
	f       *Forward
	log     *slog.Logger                     // with the server's name as an attribute
	tls     *exchange.Channel                // nil for a plain server
	upgrade atomic.Pointer[exchange.Upgrade] // nil if the server is only queried unencrypted

	*exchange.Account

	queries atomic.Uint64 // messages sent and connections opened
}

// upgraded returns the server's opportunistic TLS connection. The connection is nil if the question
// must go unencrypted.
func (s *server) upgraded() (*exchange.Upgrade, *exchange.Stream) {
	u := s.upgrade.Load()
	if u == nil {
		return nil, nil
	}
	return u, u.Current()
}

func (s *server) transport() Transport {
	switch u, conn := s.upgraded(); {
	case u == nil:
		return ""
	case conn == nil:
		return InTheClear
	}
	return Opportunistic
}

// A Transport is the transport of the next question to a plain server that may use opportunistic
// TLS. It is empty if TLS is disabled.
type Transport string

// The transports of a plain server.
const (
	InTheClear    Transport = "udp"
	Opportunistic Transport = "tls (opportunistic)" // without authentication
)

// retire lets the connection close after its last waiter.
func (s *server) retire() {
	if s.tls != nil {
		s.tls.Retire()
	}
	if u := s.upgrade.Load(); u != nil {
		u.Retire()
	}
}

// close closes the connection, even while it is being opened.
func (s *server) close() {
	if s.tls != nil {
		s.tls.Close()
	}
	if u := s.upgrade.Load(); u != nil {
		u.Close()
	}
}

// sent records that a question goes to the server.
func (s *server) sent() {
	s.queries.Add(1)
	if u := s.upgrade.Load(); u != nil {
		u.Prepare()
	}
}

// failed records a try that ended with err. Faults of this host do not count.
func (s *server) failed(err error) {
	if !exchange.IsLocal(err) {
		s.follow(s.Failed(exchange.Reason(err), exchange.IsSilence(err), time.Now()))
	}
}

// failedAgain is failed for a try that was already counted as overdue.
func (s *server) failedAgain(err error) {
	if !exchange.IsLocal(err) {
		s.follow(s.FailedAgain(exchange.Reason(err), exchange.IsSilence(err), time.Now()))
	}
}

// follow reports and logs a state change.
func (s *server) follow(c exchange.Change) {
	if c.IsShift {
		s.f.updateReach()
	}
	if c.IsNew {
		s.f.config.Changed()
	}
	if c.IsResized {
		s.tellSize(c.UDPSize)
	}
	if c.Told != "" {
		s.tell(c)
	}
}

func (s *server) tell(c exchange.Change) {
	log := s.log
	if c.Changes > 1 {
		log = log.With("changes", c.Changes)
	}
	if c.Told == exchange.Up {
		log.Info("upstream up", "rtt", c.RTT, journal.UpstreamUp.Attr())
	} else {
		log.Warn("upstream down", "error", c.Reason, "rtt", c.RTT, journal.UpstreamDown.Attr())
	}
	s.f.tellOutages()
}

// tellSize logs the new response size. Losses and probes are far apart, so this does not flood the
// log.
func (s *server) tellSize(size uint16) {
	if size == 0 {
		s.log.Info("upstream delivers large UDP responses again")
		return
	}
	s.log.Warn("upstream loses large UDP responses", "askingFor", size)
}

// timedOut records a try without a response in time. The response may still arrive.
func (s *server) timedOut(after time.Duration) {
	s.failed(exchange.ErrTimeout)
	if s.tls != nil {
		s.tls.Suspect(after)
	}
}

// setUpgrade adds or removes the upgrade as configured. The caller holds Forward.setting.
func (s *server) setUpgrade(f *Forward) {
	switch u := s.upgrade.Load(); {
	case f.opportunistic && u == nil:
		if addr, ok := f.config.TLSAddr(s.Server); ok && !s.TLS {
			s.upgrade.Store(f.dialer.Opportunistic(s.Server, addr))
		}
	case !f.opportunistic && u != nil:
		s.upgrade.Store(nil)
		u.Retire()
	}
}

// isPlain reports whether the server needs no special socket: it has no source address, interface
// or zone.
func (s *server) isPlain() bool {
	return s.Interface == "" && !s.Source.IsValid() && s.Addr.Addr().Zone() == ""
}

// form returns the form of a query to the server and the response size to request. The parameters
// are those of UsesEDNS.
func (s *server) form(silentSince time.Time, needsEDNS bool, most uint16, now time.Time) (as exchange.Form, size uint16) {
	if s.tls != nil {
		silentSince = time.Time{}
	}
	switch uses, size := s.UsesEDNS(silentSince, needsEDNS, most, now); {
	case !uses:
		return exchange.WithoutEDNS, 0
	case s.tls != nil:
		return exchange.Padded, size
	default:
		return exchange.WithEDNS, size
	}
}

// inTurn returns the servers in query order: as configured, but sorted by rank. behind lists the
// servers that were moved back. If nothing changes, order is the argument itself.
func inTurn(servers []*server) (order, behind []*server) {
	type ranked struct {
		*server
		rank int
	}
	all, best, worst := make([]ranked, len(servers)), math.MaxInt, 0
	for i, s := range servers {
		all[i] = ranked{s, s.Rank()}
		best, worst = min(best, all[i].rank), max(worst, all[i].rank)
	}
	if best >= worst {
		return servers, nil
	}
	slices.SortStableFunc(all, func(a, b ranked) int { return a.rank - b.rank })
	first := 0
	for _, s := range all {
		if order = append(order, s.server); s.rank == best {
			first++
		}
	}
	return order, order[first:]
}

// resendAfter is the minimum time before the same server gets a question again; it grows with each
// attempt. An answer that is so late is lost, or the server itself waits for others; a second query
// does not help.
const resendAfter = 100 * time.Millisecond

// waitFor returns how long to wait for a server before another one is queried as well, or the same
// one again. n is the number of earlier attempts.
func (f *Forward) waitFor(s *server, again bool, n int) time.Duration {
	return f.bounded(s.Wait(), again, n)
}

func (f *Forward) bounded(wait time.Duration, again bool, n int) time.Duration {
	most := f.config.TryTimeout
	if again {
		wait = max(wait, resendAfter*time.Duration(n+1))
		most = max(most, min(f.config.Silence, 2*resendAfter+wait))
	}
	return max(min(wait, most), f.config.Hedge)
}

// alive is the factor on Silence for a server that accepts connections but does not answer: it may
// just be slow.
const alive = 3

// checkWait returns the time after which a check reports that the server is silent for now.
func (f *Forward) checkWait(s *server) time.Duration {
	return max(2*f.config.Hedge, min(s.Usual(), f.config.TryTimeout))
}

// checkTime returns the duration of a check if the server does not accept a connection either. It
// is most of the lifetime of a question to a silent server, or longer for a distant server.
func (f *Forward) checkTime(s *server) time.Duration {
	return max(f.config.Silence*3/4, min(2*s.Usual(), alive*f.config.Silence))
}
