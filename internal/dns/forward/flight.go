package forward

import (
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/dns/exchange"
)

// A flight is a question in progress and all its waiters. Identical questions are sent once: N
// copies would give an attacker who forges responses N times the chance (CVE-2020-25686 DNSpooq,
// CVE-2023-30464 CoreDNS).
//
// Any goroutine may begin a flight or join one. After that, only the watcher of its lane changes
// it; see life.go.
type flight struct {
	key   exchange.Key
	hash  uint64
	table *table // part of the question's identity: after SetRoutes, no query gets an answer from the old servers
	route *route
	tag   uint64
	begun time.Time
	isRaw bool    // begun by a PendingQuery, so Config.Answered also gets late answers
	check *server // the server that this flight checks; nil for a client's question

	trace *dnsserver.Trace // of the query that began the flight; nil disables it

	spent exchange.Spending
	refs  atomic.Int32 // held by the lane until the end, by each try, and by mail

	// Guarded by lane.mu.
	isAsked       bool // in the lane's table, and counted in flights
	waiting       []*dnsserver.PendingQuery
	callers       []*caller
	joined        int // number of waiters so far
	isLoopCounted bool
	hasStale      bool // the Handler may have a stale answer for those in waiting
	releaseAt     time.Time
	twin          *flight // the next in the same chain
	links         [2]link
	due           time.Time // time of the watcher's next look
	place         int       // index in the timers, from 1; 0 means no timer

	// Owned by the watcher once the flight has begun.
	tries         []*try  // open tries
	first         *server // server of the try that began with the flight, or nil
	round         *round  // nil while only the first try has begun
	turnAt        time.Time
	silentAt      time.Time
	hasSecondWait bool // the current attempt got a second wait because the hedge budget was empty
	hedgedAt      int  // last attempt, from 1, that a hedge overtook; 0 means no hedge
	isFinished    bool
	hasFailed     bool // it ended without a final response
	octets        int  // size of the response that it ended with
	isLeft        bool // all waiters left early; no try stays open
	isCleared     bool // all tries are closed
}

// A caller is a goroutine that waits for a flight in ServeDNS.
type caller struct {
	client netip.Addr
	isUDP  bool
	fl     *flight // guarded by lane.mu
	done   chan struct{}

	// Constant once done is closed.
	msg  *dns.Msg // shared by all callers; each copies it when it runs
	from *server
	err  error
}

// chains is the number of hash chains: a power of two, and more than the usual number of questions
// in flight.
const chains = 1 << 10

// flights counts the questions in flight, up to a maximum.
type flights struct {
	max atomic.Int64
	n   atomic.Int64
}

// enter reserves a place for one question. If it returns true, the caller must call exit.
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

// share returns the number of questions that one route may have in flight. With several routes, no
// route may use every place. So cluster names still resolve when the site's nameservers are dead
// and each question to them lasts until its deadline.
func (all *flights) share(r *route) int64 {
	most := all.max.Load()
	if !r.alone {
		return most - most/4
	}
	return most
}

// flightParams holds the parameters of a new flight.
type flightParams struct {
	table *table
	route *route
	tag   uint64
	now   time.Time
	trace *dnsserver.Trace // nil disables it
}

// newFlightLocked returns a flight without waiters.
func (n *lane) newFlightLocked(k exchange.Key, hash uint64, d flightParams) *flight {
	var fl *flight
	if last := len(n.spare) - 1; last >= 0 {
		fl = n.spare[last]
		n.spare = n.spare[:last]
	} else {
		fl = new(flight)
	}
	fl.key = append(fl.key[:0], k...)
	fl.hash, fl.table, fl.route, fl.tag, fl.begun = hash, d.table, d.route, d.tag, d.now
	fl.trace = d.trace
	fl.refs.Store(1)
	return fl
}

// hold prevents the reuse of a flight until releaseFlight.
func (fl *flight) hold() *flight {
	fl.refs.Add(1)
	return fl
}

// releaseFlight releases one hold. After the last one, the flight can be reused.
func (n *lane) releaseFlight(fl *flight) {
	if fl.refs.Add(-1) == 0 {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.spareLocked(fl)
	}
}

// spareLocked keeps a flight without holds for reuse.
func (n *lane) spareLocked(fl *flight) {
	const most = 512 // flights to keep
	clear(fl.waiting)
	clear(fl.tries[:cap(fl.tries)])
	key, waiting, tries := fl.key, fl.waiting[:0], fl.tries[:0]
	*fl = flight{}
	fl.key, fl.waiting, fl.tries = key, waiting, tries
	if len(n.spare) < most {
		n.spare = append(n.spare, fl)
	}
}

// lifeOf returns the maximum duration of a flight.
func (n *lane) lifeOf(fl *flight) time.Duration {
	if fl.check != nil {
		return max(alive*n.f.config.Silence, n.f.checkTime(fl.check))
	}
	return n.f.config.Deadline
}

func (fl *flight) isTrying(s *server) bool {
	return slices.ContainsFunc(fl.tries, func(t *try) bool { return t.to == s })
}

// releaseLocked detaches and returns the waiting queries if one of them may have a stale answer.
func (fl *flight) releaseLocked() (waiting []*dnsserver.PendingQuery) {
	if fl.hasStale {
		waiting, fl.waiting, fl.hasStale = fl.waiting, nil, false
	}
	return waiting
}

func (n *lane) findLocked(k exchange.Key, hash uint64, t *table) *flight {
	fl := n.asked[hash%chains]
	for fl != nil && (fl.hash != hash || fl.table != t || string(fl.key) != string(k)) {
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

// leaveLocked removes the flight from the table, so that no more waiters join. It keeps its
// waiters.
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
