package forward

import (
	"context"
	"errors"
	"sync"

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

	// Set before done is closed, constant from then on.
	msg  *dns.Msg
	from *server
	err  error
}

// flights are the questions in flight.
type flights struct {
	mu     sync.Mutex // guards what follows
	max    int
	byKey  map[flightKey]*flight
	closed bool
}

var (
	errNotOneQuestion = errors.New("forwarding a query that has not one question")
	errClosed         = errors.New("forwarding after the end")
)

// join returns the flight of key to wait for, starting it when there is none.
func (f *Forward) join(key flightKey, r *route) (*flight, error) {
	all := &f.flights
	all.mu.Lock()
	defer all.mu.Unlock()
	if fl := all.byKey[key]; fl != nil {
		fl.waiting++
		fl.joined++
		f.counts.joined.Add(1)
		return fl, nil
	}
	switch share := all.shareLocked(key.table); {
	case all.closed:
		return nil, errClosed
	case len(all.byKey) >= all.max, r.flying >= share:
		f.counts.shed.Add(1)
		return nil, tooMany(key.question, min(share, len(all.byKey)))
	}
	// The flight outlives the query that began it when others wait for it too.
	ctx, cancel := context.WithTimeout(context.Background(), f.deadline)
	fl := &flight{key: key, route: r, cancel: cancel, done: make(chan struct{}), waiting: 1, joined: 1}
	all.byKey[key] = fl
	r.flying++
	f.counts.asked.Add(1)
	f.work.Go(func() { f.fly(ctx, fl, r) })
	return fl, nil
}

func (f *Forward) fly(ctx context.Context, fl *flight, r *route) {
	defer fl.cancel() // closes the sockets of the other tries
	fl.msg, fl.from, fl.err = f.ask(ctx, fl.key.question, r)
	f.flights.remove(fl)
	close(fl.done)
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
		fl.route.flying--
	}
}

// shareLocked is how many questions may take the same route. Where there are several, none takes all the room: when the
// site's nameservers are dead, and each question for them lasts until the deadline, the cluster's names are still asked for.
func (all *flights) shareLocked(t *table) int {
	if len(t.order) > 1 {
		return all.max - all.max/4
	}
	return all.max
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
	m.Id = q.Msg.Id
	m.Question = []dns.Question{q.Msg.Question[0]}
	m.RecursionDesired = q.Msg.RecursionDesired
	m.CheckingDisabled = q.Msg.CheckingDisabled
	return m
}
