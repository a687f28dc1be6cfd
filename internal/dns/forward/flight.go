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

// A flight is a question that is being asked, for all who wait for its response. Identical questions are asked once: N of them
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
	isRaw bool    // begun by a Later, so that Config.Answered also gets late answers
	check *server // the server whose presence this flight checks; nil for a client's question

	spent exchange.Spending
	refs  atomic.Int32 // held by the lane until the end, by each try, and by mail

	// Guarded by lane.mu.
	isAsked     bool // it is in the lane's table, and has room of flights
	waiting     []*dnsserver.Later
	guests      []*guest
	joined      int // how many have waited
	hasComeBack bool
	hasStale    bool // the Handler may have a stale answer for those in waiting
	releaseAt   time.Time
	twin        *flight // the next in the same chain
	links       [2]link
	due         time.Time // when the watcher looks at it
	place       int       // among the timers, from 1; 0: it has none

	// The watcher's, once the flight has begun.
	tries     []*try  // that are open
	first     *server // of the try that was begun with the flight; nil: there was none
	round     *round  // nil: only the first try was begun
	turnAt    time.Time
	silentAt  time.Time
	isHurried bool // the current attempt got a second wait, as no hedge was left
	hedgedAt  int  // attempts up to this one, from 1, were overtaken by a hedge; 0: there was none
	hasLanded bool
	hasFailed bool // no response came before it landed
	isLeft    bool // all waiters left early, so no try stays open
	isCleared bool // all tries are closed
}

// A link is a flight's place in a line.
type link struct{ older, newer *flight }

// The lines that a flight is in while it is asked.
const (
	inLane  = iota // of its lane
	inRoute        // of its lane and route
)

// A line is a list of flights in the order in which they began.
type line struct{ oldest, newest *flight }

func (l *line) add(fl *flight, which int) {
	fl.links[which] = link{older: l.newest}
	if l.newest != nil {
		l.newest.links[which].newer = fl
	} else {
		l.oldest = fl
	}
	l.newest = fl
}

func (l *line) remove(fl *flight, which int) {
	at := fl.links[which]
	if at.older != nil {
		at.older.links[which].newer = at.newer
	} else {
		l.oldest = at.newer
	}
	if at.newer != nil {
		at.newer.links[which].older = at.older
	} else {
		l.newest = at.older
	}
	fl.links[which] = link{}
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

// A seat describes one waiter of a flight: a Later or a guest.
type seat struct {
	later    *dnsserver.Later
	hasStale bool
	guest    *guest
	from     *server // the server that asks, when it is one that is asked; nil: another client
}

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

// evictable is the age from which a question may lose its room to a new one.
const evictable = 250 * time.Millisecond

// A departure holds the parameters of a new flight.
type departure struct {
	key   exchange.Key
	table *table
	route *route
	tag   uint64
	now   time.Time
}

// board adds a waiter to the flight of the same question, or begins a flight and sends its first query.
func (n *lane) board(d departure, who seat) error {
	first, out, hasMail, err := n.seat(d, who)
	if hasMail {
		n.wake()
	}
	out.tell()
	if first != nil {
		defer n.senders.Done()
		n.send(first)
	}
	return err
}

// seat is the part of board that needs the lock and makes no system call.
func (n *lane) seat(d departure, who seat) (first *try, out eviction, hasMail bool, err error) {
	hash := n.hash(d.key)
	n.mu.Lock()
	defer n.mu.Unlock() // even on a panic, or other callers would block forever
	before := len(n.mail)
	defer func() { hasMail = len(n.mail) > before }()
	if fl := n.findLocked(hash, d); fl != nil {
		if who.from != nil && n.f.cameBack(who.from, &fl.hasComeBack) {
			return nil, out, false, errComeback
		}
		n.f.counts.joined.Add(1)
		n.seatLocked(fl, who, d.now)
		return nil, out, false, nil
	}
	if n.closed {
		return nil, out, false, exchange.ErrClosed
	}
	if !n.f.flights.enter(d.route) {
		var ok bool
		if out, ok = n.makeRoomLocked(d.route, d.now); !ok {
			return nil, out, false, errFull
		}
	}
	fl := n.newFlightLocked(d, hash)
	fl.isRaw = who.later != nil
	n.enterLocked(fl)
	n.seatLocked(fl, who, d.now)
	n.f.counts.asked.Add(1)
	if first = n.prepareLocked(fl); first != nil {
		n.senders.Add(1)
	}
	return first, out, false, nil
}

func (n *lane) seatLocked(fl *flight, who seat, now time.Time) {
	fl.joined++
	if who.guest != nil {
		who.guest.fl = fl
		fl.guests = append(fl.guests, who.guest)
		return
	}
	fl.waiting = append(fl.waiting, who.later)
	if who.hasStale && !fl.hasStale {
		fl.hasStale, fl.releaseAt = true, now.Add(patience)
		if fl.place > 0 && fl.releaseAt.Before(fl.due) {
			n.setTimerLocked(fl, fl.releaseAt)
		}
	}
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
	fl.refs.Store(1)
	return fl
}

// An eviction holds the waiters of a question that lost its room to a new one.
type eviction struct {
	waiting []*dnsserver.Later
	guests  []*guest
	err     error
}

func (e eviction) tell() {
	for _, g := range e.guests {
		g.err = e.err
		close(g.done)
	}
	handle(e.waiting, &dnsserver.Tried{Err: e.err})
}

// makeRoomLocked evicts the oldest question of the same route or, if the route is below its share, of any route. It
// reports false if that question is too young. So names without an answer do not keep out other names.
func (n *lane) makeRoomLocked(r *route, now time.Time) (out eviction, ok bool) {
	fl := r.lines[n.index].oldest
	if r.flying.Load() < n.f.flights.share(r) {
		fl = n.order.oldest
	}
	if fl == nil || now.Sub(fl.begun) < evictable {
		return out, false
	}
	n.leaveLocked(fl)
	out = eviction{fl.waiting, fl.guests, tooMany(fl.key.Question(), n.f.flights.count())}
	fl.waiting, fl.guests = nil, nil
	n.postLocked(mail{fl: fl.hold(), isLeft: true})
	n.f.flights.n.Add(1)
	r.flying.Add(1)
	return out, true
}

// chains are a power of two, and more than there are usually questions in flight.
const chains = 1 << 10

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

// leave removes a guest that gave up. The last guest ends the flight, unless a Later began it.
func (n *lane) leave(g *guest) {
	defer n.wake()
	n.mu.Lock()
	defer n.mu.Unlock()
	fl := g.fl
	i := slices.Index(fl.guests, g)
	if i < 0 {
		return // the flight has landed, and may serve another question by now
	}
	fl.guests = slices.Delete(fl.guests, i, i+1)
	if fl.isAsked && !fl.isRaw && len(fl.guests) == 0 { // a Later's question goes on: its answer is cached
		n.leaveLocked(fl)
		n.postLocked(mail{fl: fl.hold(), isLeft: true})
	}
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
