package forward

import (
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unique"

	"github.com/node-dns/node-dns/internal/dns/exchange"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
	"github.com/node-dns/node-dns/internal/sys/journal"
)

// A server is one upstream nameserver and what is known about it. One server
// value serves all routes that have its address.
type server struct {
	nameserver.Server
	handle  nameserver.Handle // of Server
	log     *slog.Logger
	news    func()                           // is called after the log has told of a change
	changed func()                           // is called after every change
	shifted func()                           // is called when the server has gone, or is back
	tls     *exchange.Channel                // nil for a plain server
	upgrade atomic.Pointer[exchange.Upgrade] // nil: a plain server is asked in the clear alone

	queries atomic.Uint64 // messages sent, and connections begun

	mu     sync.Mutex // guards health
	health health
}

func newServer(address nameserver.Server, f *Forward) *server {
	s := &server{
		Server: address, handle: unique.Make(address), log: f.log, news: f.tellOutages, changed: f.changed, shifted: f.darken,
		health: health{state: Unknown, since: time.Now()},
	}
	if address.TLS {
		s.tls = f.dialer.TLS(address)
	}
	s.setUpgrade(f)
	return s
}

// tlsAddress is where a plain server may speak TLS: at port 853 of its address (RFC 7858 section 3.1), if it is at port 53. At
// another port is another service, and on loopback nobody listens in.
func tlsAddress(s nameserver.Server) (addr netip.AddrPort, ok bool) {
	addr = netip.AddrPortFrom(s.Addr.Addr(), nameserver.PortTLS)
	return addr, s.Plain() && s.Addr.Port() == nameserver.Port && !s.Addr.Addr().IsLoopback()
}

// setUpgrade has the server have an upgrade where it is to. Forward.setting is held.
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

// upgraded is the server's connection, where a question need not go in the clear; nil: it must.
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

// retire lets the connection end as soon as nobody waits on it.
func (s *server) retire() {
	if s.tls != nil {
		s.tls.Retire()
	}
	if u := s.upgrade.Load(); u != nil {
		u.Retire()
	}
}

// close ends the connection, and one that is being made.
func (s *server) close() {
	if s.tls != nil {
		s.tls.Close()
	}
	if u := s.upgrade.Load(); u != nil {
		u.Close()
	}
}

// sent is called when a question goes to the server.
func (s *server) sent() {
	s.queries.Add(1)
	if u := s.upgrade.Load(); u != nil {
		u.Prepare()
	}
}

// succeeded accounts for a response, whatever it says: who refuses is there.
func (s *server) succeeded(rtt time.Duration, rcode int) {
	s.account(time.Now(), func(h *health, now time.Time) {
		h.succeeded(rtt, now)
		h.durations.add(rtt, rcode)
	})
}

// answered is succeeded for a response that came now and is final, and hasOPT if it has an OPT record.
func (s *server) answered(now time.Time, rtt time.Duration, rcode int, hasOPT bool) {
	s.account(now, func(h *health, now time.Time) {
		h.succeeded(rtt, now)
		h.durations.add(rtt, rcode)
		h.heard(rcode, true)
		if hasOPT {
			h.sawEDNS()
		}
	})
}

// heardOverTCP accounts for a response whose time was not measured.
func (s *server) heardOverTCP() {
	s.account(time.Now(), func(h *health, now time.Time) { h.alive(now) })
}

// failed accounts for a try that ended with err. Faults of this host do not count.
func (s *server) failed(err error) {
	if !exchange.IsLocal(err) {
		s.account(time.Now(), func(h *health, now time.Time) { h.failed(exchange.Reason(err), exchange.IsSilence(err), now) })
	}
}

// account changes the account, and logs a change of state.
func (s *server) account(now time.Time, change func(h *health, now time.Time)) {
	s.mu.Lock()
	before, wasGone := s.health.state, s.health.isGone()
	change(&s.health, now)
	isNew, isShift := s.health.state != before, s.health.isGone() != wasGone
	state, changes := s.health.tell(now)
	rtt, reason := s.health.rtt, s.health.lastError
	s.mu.Unlock()
	if isShift {
		s.shifted()
	}
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
	s.failed(exchange.ErrTimeout)
	if s.tls != nil {
		s.tls.Suspect(after)
	}
}

func (s *server) isDown() bool { return s.rank() == down }

func (s *server) rank() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.health.rank()
}

func (s *server) wait() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.health.wait()
}

// usual is how long nearly all its responses take at most; 0: none came.
func (s *server) usual() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.health.rtt == 0 {
		return 0
	}
	return s.health.wait()
}

// wasHeard reports whether a response came since then, to whatever question.
func (s *server) wasHeard(since time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.health.heardAt.Before(since)
}

// late notes that another server had the answer while this one was waited for, or instead of it.
func (s *server) late() {
	s.learn(func(h *health) { h.late(time.Now()) })
}

// keepsUp is health's.
func (s *server) keepsUp(took, least, most time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.health.keepsUp(took, least, most)
}

// reached records that the host accepted or refused a TCP connection, and so is alive.
func (s *server) reached() { s.learn(func(h *health) { h.reachedAt = time.Now() }) }

// wasReached reports whether the server has answered, or its host was reached over TCP, since then.
func (s *server) wasReached(since time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.health.heardAt.Before(since) || !s.health.reachedAt.Before(since)
}

// isDead reports whether the server is down, or was silent to its last check.
func (s *server) isDead() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.health.state == Down || s.health.silentToCheck
}

// isPlain reports whether the server needs no special socket: no source, interface or zone.
func (s *server) isPlain() bool {
	return s.Interface == "" && !s.Source.IsValid() && s.Addr.Addr().Zone() == ""
}

// isOverUDP reports whether the next query uses UDP.
func (s *server) isOverUDP() bool {
	_, conn := s.upgraded()
	return s.tls == nil && conn == nil
}

// standing returns the rank of the server, the wait for its answer, and whether a probe is due.
func (s *server) standing(now time.Time) (rank int, wait time.Duration, mayProbe bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.health.rank(), s.health.wait(), s.health.mayProbe(now)
}

// choose returns the first server to ask, the wait for its answer, and whether a probe of another server is due.
func (r *route) choose(now time.Time) (first *server, wait time.Duration, hasProbe bool) {
	best, probes, isFirstProbe := down+1, 0, false
	for _, s := range r.servers {
		rank, itsWait, mayProbe := s.standing(now)
		if mayProbe {
			probes++
		}
		if rank < best {
			best, first, wait, isFirstProbe = rank, s, itsWait, mayProbe
		}
	}
	return first, wait, probes > 1 || probes == 1 && !isFirstProbe
}

func (s *server) startProbe() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.health.startProbe(time.Now())
}

// isProbe notes that the server is asked anyway, though it is late: no server is better.
func (s *server) isProbe() {
	s.learn(func(h *health) {
		if h.rank() > 0 && h.state != Down {
			h.nextProbe = time.Now().Add(betweenProbes)
		}
	})
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

// form is how a question to the server is written. silentSince and needsEDNS are useEDNS's.
func (s *server) form(silentSince time.Time, needsEDNS bool, now time.Time) exchange.Form {
	if s.tls != nil {
		silentSince = time.Time{}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !s.health.useEDNS(silentSince, needsEDNS, now):
		return exchange.WithoutEDNS
	case s.tls != nil:
		return exchange.Padded
	}
	return exchange.WithEDNS
}

// learn changes what is known about the server otherwise than by its successes.
func (s *server) learn(change func(*health)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.health)
}

// inTurn returns the servers in the order in which they are asked, as they were configured, but by rank; and those that are
// behind another for that. It returns the argument itself when there is nothing to change.
func inTurn(servers []*server) (order, behind []*server) {
	type ranked struct {
		*server
		rank int
	}
	all, best, worst := make([]ranked, len(servers)), down, 0
	for i, s := range servers {
		all[i] = ranked{s, s.rank()}
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
