package forward

import (
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/internal/busy"
	"github.com/node-dns/node-dns/internal/dnsserver"
)

// A lane asks questions without a goroutine for each: those that one server answers at once over UDP, as nearly all are. What
// takes more than that becomes a flight, for which the lane keeps the socket and those who wait. A question is asked from a
// port of its own, as those of askUDP are.
type lane struct {
	f       *Forward
	bell    *busy.Bell
	poll    poll
	out     dnsserver.Outgoing // the watcher's
	pace    busy.Pace
	now     time.Time    // when the kernel told the watcher of what it takes
	seed    maphash.Seed // random: who asks cannot choose the hash
	closing atomic.Bool

	mu       sync.Mutex      // guards what follows
	asked    [chains]*asking // by hash of the key, linked by twin
	slots    []*asking       // that have a socket; nil: free
	free     []int           // slots
	idle     [2][]*asking    // by family, with a socket that belongs to nobody
	faulty   []*asking       // that the watcher is to drop
	queues   [lastWait + 1]queue
	ids      ids
	isInside bool // the watcher waits in the kernel, and looks at the clock by itself
	closed   bool
	isOver   bool // there is no watcher any more
}

// Ask asks for the answer to a query where that takes no more than one question to one server, and calls Config.Answered
// with it, from another goroutine; or has the Handler answer with what came of it. It returns false where it does not, and
// nothing was done. tag is for Reply.
func (f *Forward) Ask(l *dnsserver.Later, tag uint64) bool {
	if len(f.lanes) == 0 || f.all.Load() {
		return false
	}
	var room [maxNameSize + 6]byte
	key, ok := appendKey(room[:0], l.Query().Msg)
	if !ok {
		return false
	}
	t := f.table.Load()
	r := t.matchWire(key)
	if r == nil || r.Local || r.dark.is() {
		return false
	}
	now := time.Now()
	s, wait := r.first(now)
	if s == nil {
		return false
	}
	return f.laneOf(key).ask(key, terms{t, r, s, tag, now, f.laneWait(wait, len(r.servers) == 1)}, l)
}

// terms are what a lane is told of a question beside its key.
type terms struct {
	table  *table
	route  *route
	server *server
	tag    uint64
	now    time.Time
	wait   int // the queue
}

// first is the server whose turn it is, and how long it is waited for; nil: a lane cannot ask it, or another one is to be probed.
func (r *route) first(now time.Time) (first *server, wait time.Duration) {
	for _, s := range r.servers {
		switch state, itsWait := s.laneState(now); {
		case state == laneNever:
			return nil, 0
		case state == laneNow:
			return s, itsWait
		case state == laneLate && first == nil:
			first, wait = s, itsWait
		}
	}
	return first, wait
}

// laneOf is the lane of a question: the same one for the same question. A client cannot choose questions that share one.
func (f *Forward) laneOf(key []byte) *lane {
	return f.lanes[maphash.Bytes(f.seed, key)%uint64(len(f.lanes))]
}

// ask joins who asks already, or asks.
func (n *lane) ask(key []byte, q terms, l *dnsserver.Later) bool {
	udp := n.f.udp.Load()
	a, joined := n.join(key, q, l, udp)
	if a == nil {
		return joined
	}
	defer n.drop(a)
	q.server.sent()
	if err := n.send(a, udp); err != nil { // the Handler finds out what is wrong
		waiting, isOurs := n.takeUnsent(a)
		for _, other := range waiting {
			if other != l {
				other.Handle(nil)
			}
		}
		if isOurs {
			n.leave(a)
		}
		return !slices.Contains(waiting, l)
	}
	n.f.counts.asked.Add(1)
	return true
}

// join joins who asks already, or returns the question to be asked. nil and false: it is not to be asked here.
func (n *lane) join(key []byte, q terms, l *dnsserver.Later, udp *UDP) (a *asking, joined bool) {
	hash := n.hash(key)
	n.mu.Lock()
	defer n.mu.Unlock() // also when it panics: others would wait for ever
	if a := n.findLocked(hash, key); a != nil {
		if a.table != q.table || a.flight != nil && !a.flight.waitForLocked(n.f, a) {
			return nil, false
		}
		if s := a.asks(l.Query().Client.Addr()); s != nil && n.f.cameBack(s, &a.hasComeBack) {
			l.Handle(&dnsserver.Tried{Server: a.server.Server, Err: errComeback})
			return nil, true
		}
		a.waiting = append(a.waiting, l)
		n.f.counts.joined.Add(1)
		return nil, true
	}
	if n.closed || !n.f.flights.enter(q.route) {
		return nil, false
	}
	a = n.newLocked(q.server.Addr.Addr().Is4(), udp.hasPorts())
	a.key = append(a.key[:0], key...)
	a.query = appendQuery(a.query[:0], n.ids.next(), a.key, udp.Size)
	if a.isGuarded = udp.isGuarded(); a.isGuarded {
		a.query = q.server.guard(a.query, udp, true, n.ids.next, q.now)
	}
	a.hash, a.table, a.route, a.server, a.tag, a.begun = hash, q.table, q.route, q.server, q.tag, q.now
	a.waiting = append(a.waiting, l)
	a.holds.Store(2)
	n.beginLocked(a)
	n.enqueueLocked(a, q.wait, q.now)
	return a, false
}

// end ends all questions: the Handler says what becomes of them. Their sockets are closed by who drops them last.
func (n *lane) end() {
	n.mu.Lock()
	var all []*asking
	for _, a := range n.asked {
		for ; a != nil; a = a.twin {
			if a.flight == nil { // else it is being ended
				all = append(all, a)
			}
		}
	}
	for _, a := range all {
		n.takeLocked(a)
	}
	n.dropFaultyLocked()
	n.isOver = true
	for _, idle := range n.idle {
		for _, a := range idle {
			n.closeLocked(a)
		}
	}
	n.idle = [2][]*asking{}
	unix.Close(n.poll.epoll)
	n.mu.Unlock()
	for _, a := range all {
		handle(a.waiting, nil)
		n.drop(a)
	}
}

// close has the watcher end.
func (n *lane) close() {
	n.mu.Lock()
	n.closed = true
	n.mu.Unlock()
	n.closing.Store(true)
	n.bell.Close()
}
