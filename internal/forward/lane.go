package forward

import (
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/internal/busy"
	"github.com/node-dns/node-dns/internal/dnsserver"
	"github.com/node-dns/node-dns/internal/dnswire"
	"github.com/node-dns/node-dns/internal/nameserver"
)

// A Reply is what an upstream nameserver answers to a question that Ask has asked.
type Reply struct {
	Msg  *dns.Msg         // final, without OPT record but for Extended DNS Errors; nil: it was not parsed
	Wire dnswire.Response // without Msg; its octets are the receiver's until it returns
	From nameserver.Server
	Tag  uint64 // that of the first query that asked; 0: the Handler did
	// Waiting are the queries with that question. Who gets the Reply ends them before returning, and sets each to nil before
	// it does: after a panic the others are still to be ended.
	Waiting []*dnsserver.Later
	// Out is flushed when all that has come with the Reply has been seen.
	Out *dnsserver.Outgoing
}

// A lane asks questions without a goroutine for each: those that one server answers at once over UDP, as nearly all are. What
// takes more than that becomes a flight, for which the lane keeps the socket and those who wait. A question is asked from a
// port of its own, as those of askUDP are.
type lane struct {
	f       *Forward
	bell    *busy.Bell
	poll    poll
	out     dnsserver.Outgoing // the watcher's
	pace    busy.Pace
	seed    maphash.Seed // random: who asks cannot choose the hash
	closing atomic.Bool

	mu       sync.Mutex         // guards what follows
	byHash   map[uint64]*asking // of the key; those of the same hash are linked by twin
	slots    []*asking          // that have a socket; nil: free
	free     []int              // slots
	idle     [2][]*asking       // by family, with a socket that belongs to nobody
	faulty   []*asking          // that the watcher is to drop
	queues   [lastWait + 1]queue
	ids      ids
	isInside bool // the watcher waits in the kernel, and looks at the clock by itself
	closed   bool
	isOver   bool // there is no watcher any more
}

// asking is a question that is being asked, all who wait for its response, and its socket. When nobody holds it any more
// it is used for another question.
type asking struct {
	query  []byte // as sent
	key    []byte
	hash   uint64
	table  *table
	route  *route
	server *server
	tag    uint64
	begun  time.Time
	socket socket

	isGuarded bool // the query has more to it than port and ID

	holds atomic.Int32 // by who sends, and by who waits for the response

	// Guarded by lane.mu.
	waiting     []*dnsserver.Later
	isAsked     bool // it is in byHash
	isSpoilt    bool // what is no response has come
	hasComeBack bool
	flight      *flight
	isWaitedFor bool // the lane is one of those who wait for the flight
	twin        *asking
	queued      queued
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
	if r == nil || r.Local {
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

// laneOf is the lane of a question: the same one for the same question.
func (f *Forward) laneOf(key []byte) *lane {
	hash := uint32(2166136261) // FNV-1a: what is in a lane too many is asked all the same
	for _, c := range key {
		hash = (hash ^ uint32(c)) * 16777619
	}
	return f.lanes[hash%uint32(len(f.lanes))]
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

func (n *lane) findLocked(hash uint64, key []byte) *asking {
	a := n.byHash[hash]
	for a != nil && string(a.key) != string(key) {
		a = a.twin
	}
	return a
}

func (n *lane) hash(key []byte) uint64 { return maphash.Bytes(n.seed, key) }

func (n *lane) beginLocked(a *asking) {
	a.isAsked, a.hasComeBack = true, false
	a.twin = n.byHash[a.hash]
	n.byHash[a.hash] = a
}

// take ends the question and returns who waits for it; false: it has ended already, or there is a flight, which ends it. Who gets
// true drops it when they have their answer.
func (n *lane) take(a *asking) (waiting []*dnsserver.Later, fl *flight, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if a.flight != nil {
		return nil, a.flight, false
	}
	waiting, ok = n.takeLocked(a)
	return waiting, nil, ok
}

// takeUnsent is take for a question that cannot be sent. A flight that others have begun goes on.
func (n *lane) takeUnsent(a *asking) (waiting []*dnsserver.Later, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if a.flight != nil {
		a.flight.report(outcome{attempt: attempt{to: a.server}, err: errUnsent})
		waiting, a.waiting = a.waiting, nil
		return waiting, false
	}
	return n.takeLocked(a)
}

func (n *lane) takeLocked(a *asking) (waiting []*dnsserver.Later, ok bool) {
	if !a.isAsked {
		return nil, false
	}
	a.isAsked = false
	n.unlinkLocked(a)
	n.dequeueLocked(a)
	n.f.flights.exit(a.route)
	return a.waiting, true
}

func (n *lane) unlinkLocked(a *asking) {
	switch first := n.byHash[a.hash]; {
	case first != a:
		for first.twin != a {
			first = first.twin
		}
		first.twin = a.twin
	case a.twin == nil:
		delete(n.byHash, a.hash)
	default:
		n.byHash[a.hash] = a.twin
	}
}

// answeredSimply is called with a response that is not parsed.
func (n *lane) answeredSimply(a *asking, r dnswire.Response) {
	waiting, fl, ok := n.take(a)
	if fl != nil {
		if m, err := decode(a.query, r.Message); err == nil {
			n.answered(a, m)
		}
		return
	}
	a.server.answered(time.Since(a.begun), rcodeOf(r.Message), r.HasOPT)
	if ok {
		n.reply(a, waiting, Reply{Wire: r})
	}
}

// answered is called with a response to the question.
func (n *lane) answered(a *asking, m *dns.Msg) {
	a.server.succeeded(time.Since(a.begun))
	verdict := judge(m, true, false)
	switch {
	case isBadCookie(a.query, m):
		n.redo(a, attempt{badCookie: true})
		return
	case verdict != noEDNS:
	case len(cookieSent(a.query)) > 0: // which is what it may not have liked
		a.server.learn(func(h *health) { h.cookie.forget(time.Now()) })
		n.redo(a, attempt{})
		return
	default:
		n.redo(a, attempt{noEDNS: true})
		return
	}
	opt := m.IsEdns0()
	a.server.learn(func(h *health) {
		if verdict != overTCP {
			h.heard(m.Rcode, verdict == final)
		}
		if opt != nil {
			h.sawEDNS()
		}
	})
	if opt != nil {
		keepErrors(m, opt)
	}
	if verdict == overTCP {
		n.redo(a, attempt{tcp: true})
		return
	}
	o := outcome{attempt: attempt{to: a.server}, msg: m, err: n.f.ignore(m)}
	if verdict != final || o.err != nil || m.IsEdns0() != nil { // it says why
		n.goOn(a, o)
		return
	}
	waiting, fl, ok := n.take(a)
	switch {
	case fl != nil:
		fl.report(o)
	case ok:
		keepAsked(m, questionOfKey(a.key))
		n.reply(a, waiting, Reply{Msg: m})
	}
}

// doubted is called with a response that may not be the server's.
func (n *lane) doubted(a *asking) {
	n.f.counts.doubted.Add(1)
	n.redo(a, attempt{tcp: true})
}

// redo has the server be asked once more, in the way that it wants.
func (n *lane) redo(a *asking, how attempt) {
	how.to = a.server
	n.goOn(a, outcome{attempt: how, isRedo: true})
}

// reply gives those who have waited the answer.
func (n *lane) reply(a *asking, waiting []*dnsserver.Later, r Reply) {
	r.From, r.Tag, r.Waiting, r.Out = a.server.Server, a.tag, waiting, &n.out
	n.f.deliver(r)
	n.drop(a)
}

// failed is called when no response comes.
func (n *lane) failed(a *asking, err error) {
	a.server.failed(err)
	n.goOn(a, outcome{attempt: attempt{to: a.server}, err: err})
}

// goOn has a flight do what is to be done after that outcome, as it is no answer for those who wait.
func (n *lane) goOn(a *asking, o outcome) {
	if fl := n.f.follow(n, a); fl != nil {
		fl.report(o)
	}
}

func handle(waiting []*dnsserver.Later, tried *dnsserver.Tried) {
	for _, l := range waiting {
		l.Handle(tried)
	}
}

// end ends all questions: the Handler says what becomes of them. Their sockets are closed by who drops them last.
func (n *lane) end() {
	n.mu.Lock()
	var all []*asking
	for _, a := range n.byHash {
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
