package forward

import (
	"container/list"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dnsserver"
)

// A flightKey is what makes two queries one question upstream. The table is part
// of it: a query that comes after SetRoutes does not get what the old servers say.
type flightKey struct {
	question
	table *table
}

// A flight is a question that is being asked, and all who wait for its response.
// Identical questions are asked once: N of them would multiply the chances of who
// forges responses (CVE-2020-25686 DNSpooq, CVE-2023-30464 CoreDNS).
type flight struct {
	key      flightKey
	route    *route
	begun    time.Time
	cancel   context.CancelFunc
	done     chan struct{}
	outcomes chan outcome // of its attempts; there is room for all of them
	messages atomic.Int32 // that were sent
	spent    spending     // on what came
	evicted  atomic.Bool  // it gave its room to another one

	// lane is where who asks the same without a goroutine waits; nil: nowhere. asking is the lane's question there, which may have asked
	// the first server already; nil: it has not.
	lane   *lane
	place  *asking
	asking *asking

	waiting int // guarded by flights.mu
	joined  int // how many ever waited; guarded by flights.mu, constant once done
	inAll   *list.Element
	inRoute *list.Element

	hasComeBack bool // guarded by flights.mu

	// Set before done is closed, constant from then on.
	msg  *dns.Msg
	from *server
	err  error
}

// report tells of an attempt.
func (fl *flight) report(o outcome) {
	select {
	case fl.outcomes <- o:
	default: // nobody waits for more
	}
}

// flights are the questions in flight.
type flights struct {
	max atomic.Int64
	n   atomic.Int64 // in flight, in the lanes too

	mu     sync.Mutex // guards what follows; that of a lane is locked before it
	byKey  map[flightKey]*flight
	order  list.List // of them
	closed bool
}

var (
	errNotOneQuestion = errors.New("forwarding a query that has not one question")
	errClosed         = errors.New("forwarding after the end")
)

// join returns the flight of key to wait for, starting it when there is none, for the client of q.
func (f *Forward) join(key flightKey, r *route, q *dnsserver.Query) (*flight, error) {
	n, wire := f.laneFor(key.question)
	if n != nil {
		n.mu.Lock()
		defer n.mu.Unlock()
	}
	all := &f.flights
	all.mu.Lock()
	defer all.mu.Unlock()
	if fl := all.byKey[key]; fl != nil {
		if s := r.asker(q); s != nil && f.cameBack(s, &fl.hasComeBack) {
			return nil, errComeback
		}
		fl.waiting++
		fl.joined++
		f.counts.joined.Add(1)
		return fl, nil
	}
	if all.closed {
		return nil, errClosed
	}
	if n != nil {
		if a := n.findLocked(n.hash(wire), wire); a != nil && a.flight == nil && a.table == key.table {
			if s := r.asker(q); s != nil && f.cameBack(s, &a.hasComeBack) {
				return nil, errComeback
			}
			f.counts.joined.Add(1)
			fl := f.joinLaneLocked(key, n, a)
			fl.waiting++
			fl.joined++
			return fl, nil
		} else if a != nil || n.closed {
			n = nil // that of other servers, or one that is over
		}
	}
	if !all.enter(r) && !all.makeRoomLocked(r) {
		f.counts.shed.Add(1)
		return nil, tooMany(key.question, int(min(all.share(r), all.n.Load())))
	}
	fl := f.newFlightLocked(key, r, time.Now())
	fl.waiting, fl.joined = 1, 1
	f.counts.asked.Add(1)
	if n != nil {
		fl.lane, fl.place = n, n.placeLocked(fl, wire)
	}
	f.takeOff(fl)
	return fl, nil
}

// joinLaneLocked starts a flight for a question that a lane has asked one server, and that is waited for there.
func (f *Forward) joinLaneLocked(key flightKey, n *lane, a *asking) *flight {
	fl := f.newFlightLocked(key, a.route, a.begun)
	fl.lane, fl.place, fl.asking = n, a, a
	fl.waiting, fl.joined = 1, 1 // the lane, for all who wait there
	n.dequeueLocked(a)
	n.enqueueLocked(a, lastWait, time.Now())
	a.flight, a.isWaitedFor = fl, true
	f.takeOff(fl)
	return fl
}

func (f *Forward) newFlightLocked(key flightKey, r *route, begun time.Time) *flight {
	fl := &flight{key: key, route: r, begun: begun, done: make(chan struct{}), outcomes: make(chan outcome, 2*maxTries)}
	all := &f.flights
	all.byKey[key] = fl
	fl.inAll, fl.inRoute = all.order.PushBack(fl), r.flights.PushBack(fl)
	return fl
}

// takeOff begins to ask. The flight outlives the query that began it when others wait for it too.
func (f *Forward) takeOff(fl *flight) {
	ctx, cancel := context.WithDeadline(context.Background(), fl.begun.Add(f.deadline))
	fl.cancel = cancel
	f.work.Go(func() {
		defer cancel() // closes the sockets of the other attempts
		defer f.land(fl)
		defer f.recovered(func(err error) {
			fl.err = extended(dns.ExtendedErrorCodeOther, err.Error(), fl.key.question, err)
		})
		fl.msg, fl.from, fl.err = f.ask(ctx, fl)
	})
}

// land ends a flight, so that nobody joins it any more, and answers who waits for it in a lane.
func (f *Forward) land(fl *flight) {
	waiting := f.end(fl)
	for _, l := range waiting {
		f.charge(l.Client(), &fl.spent)
	}
	if fl.err != nil {
		f.mayHaveComeBack(fl.joined + max(0, len(waiting)-1)) // the lane has joined once
	}
	close(fl.done)
	if len(waiting) > 0 {
		f.answerLane(fl, waiting)
	}
	if fl.asking != nil {
		fl.lane.leave(fl.asking)
	}
}

func (f *Forward) end(fl *flight) (waiting []*dnsserver.Later) {
	if fl.lane != nil {
		fl.lane.mu.Lock()
		defer fl.lane.mu.Unlock()
		fl.place.flight = nil
		waiting, _ = fl.lane.takeLocked(fl.place)
	}
	f.flights.mu.Lock()
	defer f.flights.mu.Unlock()
	f.flights.removeLocked(fl)
	return waiting
}

// answerLane gives those who wait in a lane what came of the flight.
func (f *Forward) answerLane(fl *flight, waiting []*dnsserver.Later) {
	tried := &dnsserver.Tried{Msg: fl.msg, Err: fl.err}
	if fl.err == nil {
		tried.Server = fl.from.Server
	}
	if fl.err != nil || fl.msg.IsEdns0() != nil || judge(fl.msg, false, true) != final {
		if fl.msg != nil {
			tried.Msg = fl.msg.Copy() // those of the flight have the other one
		}
		handle(waiting, tried)
		return
	}
	out := f.outs.Get().(*dnsserver.Outgoing)
	f.deliver(Reply{Msg: fl.msg.Copy(), From: fl.from.handle, Tag: fl.place.tag, Waiting: waiting, Out: out})
	out.Flush()
	f.outs.Put(out)
}

func (all *flights) removeLocked(fl *flight) {
	if all.byKey[fl.key] == fl {
		delete(all.byKey, fl.key)
		if fl.lane == nil { // else the lane does
			all.exit(fl.route)
		}
	}
	if fl.inAll != nil {
		all.order.Remove(fl.inAll)
		fl.route.flights.Remove(fl.inRoute)
		fl.inAll, fl.inRoute = nil, nil
	}
}

// evictable is how long a question must have been asked before it gives its room to another.
const evictable = 250 * time.Millisecond

// makeRoomLocked has the question of the same route that was asked first, or where that has its share of none, of all routes, give its room
// to another, and takes that; false: none was asked for long enough. So names that nobody answers do not keep out those that are.
func (all *flights) makeRoomLocked(r *route) bool {
	oldest := r.flights.Front()
	if r.flying.Load() < all.share(r) {
		oldest = all.order.Front()
	}
	if oldest == nil {
		return false
	}
	fl := oldest.Value.(*flight)
	if time.Since(fl.begun) < evictable {
		return false
	}
	all.order.Remove(fl.inAll)
	fl.route.flights.Remove(fl.inRoute)
	fl.inAll, fl.inRoute = nil, nil
	fl.evicted.Store(true)
	fl.cancel()
	all.n.Add(1) // until the other is gone there is one more
	r.flying.Add(1)
	return true
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

// leave is called by who no longer waits. The last one ends the flight.
func (all *flights) leave(fl *flight) {
	all.mu.Lock()
	defer all.mu.Unlock()
	if fl.waiting--; fl.waiting == 0 {
		all.removeLocked(fl)
		fl.cancel()
	}
}

func (all *flights) count() int {
	all.mu.Lock()
	defer all.mu.Unlock()
	return len(all.byKey)
}

// close ends all flights and lets no other begin.
func (all *flights) close() {
	all.mu.Lock()
	defer all.mu.Unlock()
	all.closed = true
	for _, fl := range all.byKey {
		fl.cancel()
	}
}

// responseTo returns the response of a flight that is done, for the client of q:
// a copy when several clients share it.
func (fl *flight) responseTo(q *dnsserver.Query) *dns.Msg {
	m := fl.msg
	if fl.joined > 1 {
		m = m.Copy()
	}
	return ofClient(q, m)
}

// ofClient makes of a response, which is the caller's, that to q.
func ofClient(q *dnsserver.Query, m *dns.Msg) *dns.Msg {
	m.Id = q.Msg.Id
	m.Question = []dns.Question{q.Msg.Question[0]}
	m.RecursionDesired = q.Msg.RecursionDesired
	m.CheckingDisabled = q.Msg.CheckingDisabled
	return m
}
