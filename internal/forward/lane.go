package forward

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/internal/busy"
	"github.com/node-dns/node-dns/internal/dnsserver"
	"github.com/node-dns/node-dns/internal/nameserver"
)

// A Reply is what an upstream nameserver answers to a question that Ask has asked.
type Reply struct {
	Msg  *dns.Msg // final, without OPT record but for Extended DNS Errors
	From nameserver.Server
	Tag  uint64 // that of the first query that asked
	// Waiting are the queries with that question. Who gets the Reply ends them.
	Waiting []*dnsserver.Later
}

// A lane asks questions without a goroutine for each: those that one server answers at once over UDP, as nearly all are. All
// that takes more than that is left to the Handler, which is told what came of it. A question is asked from a socket of its
// own, as those of askUDP are.
type lane struct {
	f       *Forward
	bell    *busy.Bell
	poll    poll
	pace    busy.Pace
	closing atomic.Bool

	mu     sync.Mutex // guards what follows
	byKey  map[string]*asking
	slots  []*asking        // by what epoll tells of a socket; nil: nothing is asked on it
	free   []uint32         // slots without a socket
	idle   [2][]*laneSocket // for IPv4 and IPv6; the last one is used next
	oldest *asking          // in order of asking
	newest *asking
	closed bool
}

// asking is a question that is being asked, and all who wait for its response.
type asking struct {
	key    string
	query  []byte // as sent
	table  *table
	route  *route
	server *server
	tag    uint64

	// Guarded by lane.mu.
	socket     *laneSocket // nil: none yet
	begun      time.Time
	waiting    []*dnsserver.Later
	prev, next *asking
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
	s := r.first(time.Now())
	if s == nil {
		return false
	}
	return f.laneOf(key).ask(key, asking{table: t, route: r, server: s, tag: tag}, l)
}

// first is the server whose turn it is; nil: a lane cannot ask it, or another one is to be probed.
func (r *route) first(now time.Time) *server {
	for _, s := range r.servers {
		switch s.laneState(now) {
		case laneNever:
			return nil
		case laneNow:
			return s
		}
	}
	return nil
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
func (n *lane) ask(key []byte, like asking, l *dnsserver.Later) bool {
	n.mu.Lock()
	if a := n.byKey[string(key)]; a != nil {
		defer n.mu.Unlock()
		if a.table != like.table {
			return false
		}
		a.waiting = append(a.waiting, l)
		n.f.counts.joined.Add(1)
		return true
	}
	if n.closed || !n.f.flights.enter(like.route) {
		n.mu.Unlock()
		return false
	}
	a := &like
	a.key, a.waiting = string(key), []*dnsserver.Later{l}
	a.query = appendQuery(make([]byte, 0, len(key)+headerSize+optSize), key, n.f.udp.Load().Size)
	n.byKey[a.key] = a
	s := n.idleLocked(a.server.Addr.Addr())
	n.mu.Unlock()

	var err error
	if s != nil {
		err = s.connect(a.server.Addr)
	} else {
		s, err = openSocket(a.server.Addr, *n.f.udp.Load())
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case err == nil:
		err = n.beginLocked(a, s)
	case s != nil:
		n.closeLocked(s)
	}
	if err == nil {
		err = sendOn(s.fd, a.query)
	}
	if err == nil {
		a.server.sent()
		n.f.counts.asked.Add(1)
		return true
	}
	for _, other := range n.takeLocked(a, false) { // the Handler finds out what is wrong
		if other != l {
			other.Handle(nil)
		}
	}
	return false
}

// beginLocked gives the question its time, and has the watcher told of what comes in on the socket.
func (n *lane) beginLocked(a *asking, s *laneSocket) error {
	if n.closed {
		s.close() // and so are all
		return errClosed
	}
	if !s.isWatched {
		s.slot = n.slotLocked()
		if err := n.watchSocket(s); err != nil {
			n.closeLocked(s)
			return err
		}
	}
	a.socket, a.begun = s, time.Now()
	n.slots[s.slot] = a
	a.prev = n.newest
	if n.newest == nil {
		n.oldest = a
		n.wakeLocked()
	} else {
		n.newest.next = a
	}
	n.newest = a
	return nil
}

// take ends the question, and returns who waits for it; none when it has ended already. Its socket may ask another one from
// another port, if it is reusable. Only who watches the sockets calls it, and so nobody reads from one that is closed.
func (n *lane) take(a *asking, reusable bool) []*dnsserver.Later {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.takeLocked(a, reusable)
}

func (n *lane) takeLocked(a *asking, reusable bool) []*dnsserver.Later {
	if n.byKey[a.key] != a {
		return nil
	}
	delete(n.byKey, a.key)
	n.f.flights.exit(a.route)
	waiting := a.waiting
	a.waiting = nil
	if a.socket == nil {
		return waiting
	}
	n.slots[a.socket.slot] = nil
	n.releaseLocked(a.socket, reusable)
	if a.prev != nil {
		a.prev.next = a.next
	} else {
		n.oldest = a.next
	}
	if a.next != nil {
		a.next.prev = a.prev
	} else {
		n.newest = a.prev
	}
	return waiting
}

// answered is called with a response to the question.
func (n *lane) answered(a *asking, m *dns.Msg) {
	a.server.succeeded(time.Since(a.begun))
	verdict := judge(m, true, false)
	if verdict == noEDNS {
		handle(n.take(a, true), &dnsserver.Tried{Server: a.server.Server, NoEDNS: true})
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
	tried := &dnsserver.Tried{Server: a.server.Server}
	switch why := n.f.ignore(m); {
	case verdict == overTCP:
		tried.Truncated = true
	case why != nil:
		tried.Err = why
	case verdict == final:
		keepChain(m, string(appendText(nil, []byte(a.key))))
		if m.IsEdns0() != nil { // it says why
			tried.Msg, tried.IsFinal = m, true
			break
		}
		if waiting := n.take(a, true); len(waiting) > 0 {
			n.f.answered(Reply{Msg: m, From: a.server.Server, Tag: a.tag, Waiting: waiting})
		}
		return
	default:
		tried.Msg = m
	}
	handle(n.take(a, true), tried)
}

// failed is called when no response comes.
func (n *lane) failed(a *asking, err error) {
	a.server.failed(err)
	handle(n.take(a, false), &dnsserver.Tried{Server: a.server.Server, Err: err})
}

// silent is called when the time of a try is over.
func (n *lane) silent(a *asking, waiting []*dnsserver.Later) {
	a.server.timedOut(n.f.tryTimeout)
	n.f.check(a.server)
	handle(waiting, &dnsserver.Tried{Server: a.server.Server})
}

func handle(waiting []*dnsserver.Later, tried *dnsserver.Tried) {
	for _, l := range waiting {
		l.Handle(tried)
	}
}

// overdue ends the questions that have had the time of a try, and says when the next one will have had it; zero: there is
// none.
func (n *lane) overdue(now time.Time) (next time.Time) {
	for {
		n.mu.Lock()
		a := n.oldest
		if a == nil || now.Sub(a.begun) < n.f.tryTimeout {
			defer n.mu.Unlock()
			if a != nil {
				next = a.begun.Add(n.f.tryTimeout)
			}
			return next
		}
		waiting := n.takeLocked(a, true)
		n.mu.Unlock()
		n.silent(a, waiting)
	}
}

// end ends all questions: the Handler says what becomes of them.
func (n *lane) end() {
	n.mu.Lock()
	var all []*dnsserver.Later
	for _, a := range n.byKey {
		all = append(all, n.takeLocked(a, false)...)
	}
	for _, s := range slices.Concat(n.idle[:]...) {
		n.closeLocked(s)
	}
	n.idle = [2][]*laneSocket{}
	unix.Close(n.poll.epoll)
	n.mu.Unlock()
	handle(all, nil)
}

// close has the watcher end.
func (n *lane) close() {
	n.mu.Lock()
	n.closed = true
	n.mu.Unlock()
	n.closing.Store(true)
	n.bell.Close()
}
