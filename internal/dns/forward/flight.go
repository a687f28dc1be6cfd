package forward

import (
	"hash/maphash"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/dns/exchange"
)

// A flight is a question that is being asked, for all its waiters. Identical questions are asked once: N of them
// would multiply the chances of an attacker who forges responses (CVE-2020-25686 DNSpooq, CVE-2023-30464 CoreDNS).
//
// Any goroutine may begin a flight or join one. After that, only the watcher of its lane changes it: see life.go.
type flight struct {
	lane  *lane
	key   exchange.Key
	hash  uint64
	table *table // part of what makes a question the same: after SetRoutes no query gets what the old servers say
	route *route
	tag   uint64
	begun time.Time
	isRaw bool    // begun by a PendingQuery, so that Config.Answered also gets late answers
	check *server // the server whose presence this flight checks; nil for a client's question

	trace *dnsserver.Trace // of the query that began it; nil: nobody wants to know

	spent exchange.Spending
	refs  atomic.Int32 // held by the lane until the end, by each try, and by mail

	// Guarded by lane.mu.
	isAsked     bool // it is in the lane's table, and has room of flights
	waiting     []*dnsserver.PendingQuery
	guests      []*guest
	joined      int // how many have waited
	hasComeBack bool
	hasStale    bool // the Handler may have a stale answer for those in waiting
	releaseAt   time.Time
	twin        *flight // the next in the same chain
	links       [2]link
	due         time.Time // when the watcher looks at it
	place       int       // among the timers, from 1; 0: no timer

	// The watcher's, once the flight has begun.
	tries     []*try  // that are open
	first     *server // of the try that was begun with the flight, or nil
	round     *round  // nil: only the first try was begun
	turnAt    time.Time
	silentAt  time.Time
	isHurried bool // the current attempt got a second wait, as no hedge was left
	hedgedAt  int  // attempts up to this one, from 1, were overtaken by a hedge; 0: no hedge
	hasLanded bool
	hasFailed bool // no response came before it landed
	octets    int  // of the response that it landed with
	isLeft    bool // all waiters left early, so no try stays open
	isCleared bool // all tries are closed
}

// A guest is a goroutine that waits for a flight in ServeDNS.
type guest struct {
	client netip.Addr
	fl     *flight // guarded by lane.mu
	done   chan struct{}

	// Constant once done is closed.
	msg  *dns.Msg // the guest's own
	from *server
	err  error
}

// chains are a power of two, and more than there are usually questions in flight.
const chains = 1 << 10

// flights bound the questions in flight.
type flights struct {
	max atomic.Int64
	n   atomic.Int64
}

// enter reserves room for one question. On true, the caller must call exit.
func (all *flights) enter(r *route) bool {
	n, flying := all.n.Add(1), r.flying.Add(1)
	if n <= all.max.Load() && flying <= all.share(r) {
		return true
	}
	all.exit(r)
	return false
}

func (all *flights) exit(r *route) {
	all.n.Add(-1)
	r.flying.Add(-1)
}

// share returns how many questions may use the same route. With several routes, no route gets all the room: when the
// site's nameservers are dead and each question for them lasts until its deadline, cluster names still resolve.
func (all *flights) share(r *route) int64 {
	most := all.max.Load()
	if !r.alone {
		return most - most/4
	}
	return most
}

func (all *flights) count() int { return int(all.n.Load()) }

// A departure holds the parameters of a new flight.
type departure struct {
	key   exchange.Key
	table *table
	route *route
	tag   uint64
	now   time.Time
	trace *dnsserver.Trace // nil: nobody wants to know
}

// newFlightLocked returns a flight without waiters.
func (n *lane) newFlightLocked(d departure, hash uint64) *flight {
	var fl *flight
	if last := len(n.spare) - 1; last >= 0 {
		fl = n.spare[last]
		n.spare = n.spare[:last]
	} else {
		fl = &flight{lane: n}
	}
	fl.key = append(fl.key[:0], d.key...)
	fl.hash, fl.table, fl.route, fl.tag, fl.begun = hash, d.table, d.route, d.tag, d.now
	fl.trace = d.trace
	fl.refs.Store(1)
	return fl
}

// hold keeps a flight from being reused until it is let go.
func (fl *flight) hold() *flight {
	fl.refs.Add(1)
	return fl
}

// letGo releases one hold. The last one makes the flight reusable.
func (n *lane) letGo(fl *flight) {
	if fl.refs.Add(-1) == 0 {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.spareLocked(fl)
	}
}

// spareLocked keeps a flight without holds for another question.
func (n *lane) spareLocked(fl *flight) {
	const most = 512 // flights that are kept
	clear(fl.waiting)
	clear(fl.tries[:cap(fl.tries)])
	key, waiting, tries := fl.key, fl.waiting[:0], fl.tries[:0]
	*fl = flight{lane: n}
	fl.key, fl.waiting, fl.tries = key, waiting, tries
	if len(n.spare) < most {
		n.spare = append(n.spare, fl)
	}
}

// lifeOf returns the longest time that a flight lasts.
func (n *lane) lifeOf(fl *flight) time.Duration {
	if fl.check != nil {
		return max(alive*n.f.config.Silence, n.f.checkTime(fl.check))
	}
	return n.f.config.Deadline
}

func (fl *flight) isTrying(s *server) bool {
	return slices.ContainsFunc(fl.tries, func(t *try) bool { return t.to == s })
}

// releaseLocked returns and forgets the waiting Laters, if one of them may have a stale answer.
func (fl *flight) releaseLocked() (waiting []*dnsserver.PendingQuery) {
	if fl.hasStale {
		waiting, fl.waiting, fl.hasStale = fl.waiting, nil, false
	}
	return waiting
}

func handle(waiting []*dnsserver.PendingQuery, tried *dnsserver.UpstreamResult) {
	for _, l := range waiting {
		l.Handle(tried)
	}
}

func (n *lane) hash(key []byte) uint64 { return maphash.Bytes(n.seed, key) }

func (n *lane) findLocked(hash uint64, d departure) *flight {
	fl := n.asked[hash%chains]
	for fl != nil && (fl.hash != hash || fl.table != d.table || string(fl.key) != string(d.key)) {
		fl = fl.twin
	}
	return fl
}

func (n *lane) enterLocked(fl *flight) {
	chain := &n.asked[fl.hash%chains]
	fl.isAsked, fl.twin, *chain = true, *chain, fl
	n.order.add(fl, inLane)
	fl.route.lines[n.index].add(fl, inRoute)
}

// leaveLocked takes the flight out of the table, so that no more waiters join. It keeps its waiters.
func (n *lane) leaveLocked(fl *flight) {
	fl.isAsked = false
	link := &n.asked[fl.hash%chains]
	for *link != fl {
		link = &(*link).twin
	}
	*link, fl.twin = fl.twin, nil
	n.order.remove(fl, inLane)
	fl.route.lines[n.index].remove(fl, inRoute)
	n.f.flights.exit(fl.route)
}
