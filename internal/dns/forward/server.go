package forward

import (
	"log/slog"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/node-dns/node-dns/internal/dns/exchange"
	"github.com/node-dns/node-dns/internal/dns/health"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
	"github.com/node-dns/node-dns/internal/sys/journal"
)

// A server is one upstream nameserver and what is known about it. One server
// value serves all routes that have its address.
type server struct {
	nameserver.Server
	handle  nameserver.Handle // of Server
	f       *Forward
	log     *slog.Logger                     // names the server
	tls     *exchange.Channel                // nil for a plain server
	upgrade atomic.Pointer[exchange.Upgrade] // nil: a plain server is asked in the clear alone

	*health.Account

	queries atomic.Uint64 // messages sent, and connections begun
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

// A Transport is what the next question to a plain server goes over, where it may be TLS; "": it may not.
type Transport string

// The transports.
const (
	InTheClear    Transport = "udp"
	Opportunistic Transport = "tls (opportunistic)" // without a check of its identity
)

// retire lets the connection end after its last waiter.
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
		s.f.darken()
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

func (s *server) tell(c health.Change) {
	log := s.log
	if c.Changes > 1 {
		log = log.With("changes", c.Changes)
	}
	if c.Told == health.Up {
		log.Info("upstream up", "rtt", c.RTT, journal.UpstreamUp.Attr())
	} else {
		log.Warn("upstream down", "error", c.Reason, "rtt", c.RTT, journal.UpstreamDown.Attr())
	}
	s.f.tellOutages()
}

// tellSize logs what the server is asked for from now on. Losses and probes are too far apart for
// many lines.
func (s *server) tellSize(size uint16) {
	if size == 0 {
		s.log.Info("upstream is asked for large responses over UDP again")
		return
	}
	s.log.Warn("upstream's large responses are lost over UDP", "askingFor", size)
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
		if addr, ok := f.config.TLSAddr(s.Server); ok && !s.TLS {
			s.upgrade.Store(f.dialer.Opportunistic(s.Server, addr))
		}
	case !f.opportunistic && u != nil:
		s.upgrade.Store(nil)
		u.Retire()
	}
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

// form is how a question to the server is written, and the size that it asks for. The parameters
// are UsesEDNS's.
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

// inTurn returns the servers in the order in which they are asked, as they were configured, but by rank; and those that are
// behind another for that. It returns the argument itself when there is nothing to change.
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

// resendAfter is the least time before a question goes to the same server again; it grows with each attempt. An answer that is so
// late is lost, or the server itself waits for others: asking twice does not help.
const resendAfter = 100 * time.Millisecond

// waitFor is how long a server is waited for before another is asked as well, or the same one again. n is how many were asked
// before.
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

// alive is the factor on Silence for a server that accepts connections but does not answer: it may be slow.
const alive = 3

// checkWait is the time after which a check reports that the server is silent for now.
func (f *Forward) checkWait(s *server) time.Duration {
	return max(2*f.config.Hedge, min(s.Usual(), f.config.TryTimeout))
}

// checkTime is the length of a check if the server accepts no connection either: most of the lifetime of a question to a silent
// server, or longer for a server that is far away.
func (f *Forward) checkTime(s *server) time.Duration {
	return max(f.config.Silence*3/4, min(2*s.Usual(), alive*f.config.Silence))
}

// hedges bounds wasted hedges: questions to a second server where the first one had the answer soon after. A hedge costs nothing if
// the first server was silent to all questions or had no answer. So names without an answer never use up the budget of other names.
// One question in 25 may be wasted, and 100 at once.
type hedges struct {
	mu    sync.Mutex // guards what follows
	asked uint64     // questions, when it was looked at last
	spent int        // in parts of a question
}

const (
	hedgeCost = 25
	mostSpent = 100 * hedgeCost
)

// may reports whether the budget allows a hedge.
func (h *hedges) may(asked uint64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.earn(asked)
	return h.spent+hedgeCost <= mostSpent
}

// waste charges the budget for a wasted hedge.
func (h *hedges) waste(asked uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.earn(asked)
	h.spent += hedgeCost
}

func (h *hedges) earn(asked uint64) {
	h.spent = max(0, h.spent-int(min(asked-h.asked, mostSpent)))
	h.asked = asked
}
