package forward

import (
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dnsserver"
)

// A flight is a question that is being asked, for all who wait for its response. Identical questions are asked once: N of them
// would multiply the chances of an attacker who forges responses (CVE-2020-25686 DNSpooq, CVE-2023-30464 CoreDNS).
//
// Anyone may begin a flight or wait for one. From then on only its lane's watcher decides: life.go has its life.
type flight struct {
	lane  *lane
	key   []byte
	hash  uint64
	table *table // part of what makes a question the same: after SetRoutes no query gets what the old servers say
	route *route
	tag   uint64
	begun time.Time
	isRaw bool    // a Later has begun it: what comes is for Config.Answered, too
	check *server // the flight only finds out whether this server is there; nil: it is a client's question

	spent spending
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
	isHurried bool // the time of the current attempt does not count
	hedgedAt  int  // attempts up to this one, from 1, were overtaken by a hedge; 0: there was none
	hasLanded bool
	hasFailed bool // no response came before it landed
	isLeft    bool // nobody has waited to the end: nothing of it stays open
	isCleared bool // nothing of it is open
}

// A link is a flight's place in a line.
type link struct{ older, newer *flight }

// The lines that a flight is in while it is asked.
const (
	inLane  = iota // of its lane
	inRoute        // of its lane and route
)

// A line is flights in the order in which they began.
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

// A guest is a goroutine that waits for a flight.
type guest struct {
	client netip.Addr
	fl     *flight // guarded by lane.mu
	done   chan struct{}

	// Constant once done is closed.
	msg  *dns.Msg // the guest's own
	from *server
	err  error
}

// A seat is one who waits for a flight: a Later, or a guest.
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

// enter takes room for one question; who got it must exit.
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

// share is how many questions may take the same route. Where there are several, none takes all the room: when the
// site's nameservers are dead, and each question for them lasts until the deadline, the cluster's names are still asked for.
func (all *flights) share(r *route) int64 {
	most := all.max.Load()
	if !r.alone {
		return most - most/4
	}
	return most
}

func (all *flights) count() int { return int(all.n.Load()) }

// evictable is how long a question must have been asked before it gives its room to another.
const evictable = 250 * time.Millisecond

// A departure is what a flight begins with.
type departure struct {
	key   []byte
	table *table
	route *route
	tag   uint64
	now   time.Time
}

// board seats one who waits for the answer: in the flight of the same question, or in a new one, whose first query it sends.
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

// seat is board without what takes system calls: sending the first query, and telling those who gave their room to it.
func (n *lane) seat(d departure, who seat) (first *try, out eviction, hasMail bool, err error) {
	hash := n.hash(d.key)
	n.mu.Lock()
	defer n.mu.Unlock() // also when it panics: others would wait for ever
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
		return nil, out, false, errClosed
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

// newFlightLocked returns a flight that nobody waits for.
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

// An eviction is who waited for a question that gave its room to another one.
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

// makeRoomLocked takes the room of the question of the same route that was asked first or, where the route has its share of none, of
// any route; false: none was asked for long enough. So names that nobody answers do not keep out those that are.
func (n *lane) makeRoomLocked(r *route, now time.Time) (out eviction, ok bool) {
	fl := r.lines[n.index].oldest
	if r.flying.Load() < n.f.flights.share(r) {
		fl = n.order.oldest
	}
	if fl == nil || now.Sub(fl.begun) < evictable {
		return out, false
	}
	n.leaveLocked(fl)
	out = eviction{fl.waiting, fl.guests, tooMany(questionOfKey(fl.key), n.f.flights.count())}
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

// leaveLocked lets nobody board any more. Who waits stays seated.
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

// leave is called for a guest that no longer waits. The last one ends the flight, if nobody else waits.
func (n *lane) leave(g *guest) {
	defer n.wake()
	n.mu.Lock()
	defer n.mu.Unlock()
	fl := g.fl
	i := slices.Index(fl.guests, g)
	if i < 0 {
		return // it has landed, and may be another question's by now
	}
	fl.guests = slices.Delete(fl.guests, i, i+1)
	if fl.isAsked && !fl.isRaw && len(fl.guests) == 0 { // what a Later has asked goes on: its answer is remembered
		n.leaveLocked(fl)
		n.postLocked(mail{fl: fl.hold(), isLeft: true})
	}
}

// hold keeps a flight from being reused until it is let go.
func (fl *flight) hold() *flight {
	fl.refs.Add(1)
	return fl
}

// letGo is called by each who held the flight. The last one makes it reusable.
func (n *lane) letGo(fl *flight) {
	if fl.refs.Add(-1) == 0 {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.spareLocked(fl)
	}
}

// spareLocked keeps a flight that nobody holds for another question.
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
