package forward

import (
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
	key     flightKey
	route   *route
	cancel  context.CancelFunc
	done    chan struct{}
	waiting int // guarded by flights.mu
	joined  int // how many ever waited; guarded by flights.mu, constant once done

	hasComeBack bool // guarded by flights.mu

	// Set before done is closed, constant from then on.
	msg  *dns.Msg
	from *server
	err  error
}

// flights are the questions in flight.
type flights struct {
	max atomic.Int64
	n   atomic.Int64 // in flight, in the lanes too

	mu     sync.Mutex // guards what follows
	byKey  map[flightKey]*flight
	closed bool
}

var (
	errNotOneQuestion = errors.New("forwarding a query that has not one question")
	errClosed         = errors.New("forwarding after the end")
)

// join returns the flight of key to wait for, starting it when there is none; q.Tried is what was asked before.
func (f *Forward) join(key flightKey, r *route, q *dnsserver.Query) (*flight, error) {
	tried := q.Tried
	all := &f.flights
	all.mu.Lock()
	defer all.mu.Unlock()
	if fl := all.byKey[key]; fl != nil {
		if s := r.at(q.Client.Addr()); s != nil && f.cameBack(s, &fl.hasComeBack) {
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
	if !all.enter(r) {
		f.counts.shed.Add(1)
		return nil, tooMany(key.question, int(min(all.share(r), all.n.Load())))
	}
	// The flight outlives the query that began it when others wait for it too.
	ctx, cancel := context.WithTimeout(context.Background(), f.timeLeft(tried))
	fl := &flight{key: key, route: r, cancel: cancel, done: make(chan struct{}), waiting: 1, joined: 1}
	all.byKey[key] = fl
	if tried == nil {
		f.counts.asked.Add(1)
	}
	f.work.Go(func() { f.fly(ctx, fl, r, tried) })
	return fl, nil
}

// timeLeft is what a question has of its time after what was tried.
func (f *Forward) timeLeft(tried *dnsserver.Tried) time.Duration {
	if tried != nil && tried.IsSilent() {
		return f.deadline - f.tryTimeout
	}
	return f.deadline
}

func (f *Forward) fly(ctx context.Context, fl *flight, r *route, tried *dnsserver.Tried) {
	defer fl.cancel() // closes the sockets of the other tries
	defer close(fl.done)
	defer f.flights.remove(fl)
	defer f.recovered(func(err error) {
		fl.err = extended(dns.ExtendedErrorCodeOther, err.Error(), fl.key.question, err)
	})
	fl.msg, fl.from, fl.err = f.ask(ctx, fl.key.question, r, tried)
	if fl.err != nil {
		f.mayHaveComeBack(f.flights.joined(fl))
	}
}

// joined is how many have waited for the flight so far.
func (all *flights) joined(fl *flight) int {
	all.mu.Lock()
	defer all.mu.Unlock()
	return fl.joined
}

// remove takes the flight off the list, so that nobody joins it any more.
func (all *flights) remove(fl *flight) {
	all.mu.Lock()
	defer all.mu.Unlock()
	all.removeLocked(fl)
}

func (all *flights) removeLocked(fl *flight) {
	if all.byKey[fl.key] == fl {
		delete(all.byKey, fl.key)
		all.exit(fl.route)
	}
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
