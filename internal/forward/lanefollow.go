package forward

import (
	"errors"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dnsserver"
)

var errUnsent = errors.New("not sent")

// follow returns the flight of a lane's question, which it begins; nil: the question has ended, or there can be none, and the
// Handler is asked.
func (f *Forward) follow(n *lane, a *asking) *flight {
	n.mu.Lock()
	if a.flight != nil || !a.isAsked {
		defer n.mu.Unlock()
		return a.flight
	}
	key := flightKey{question: questionOfKey(a.key), table: a.table}
	f.flights.mu.Lock()
	if !f.flights.closed && f.flights.byKey[key] == nil {
		fl := f.joinLaneLocked(key, n, a)
		f.flights.mu.Unlock()
		n.mu.Unlock()
		return fl
	}
	f.flights.mu.Unlock()
	waiting, _ := n.takeLocked(a)
	n.mu.Unlock()
	handle(waiting, nil)
	n.leave(a)
	return nil
}

// placeLocked has those who ask the same in the lane wait for a flight.
func (n *lane) placeLocked(fl *flight, key []byte) *asking {
	a := &asking{
		key: key, hash: n.hash(key), table: fl.key.table, route: fl.route, begun: fl.begun, flight: fl,
		socket: socket{fd: -1},
	}
	n.beginLocked(a)
	return a
}

// waitForLocked counts the lane, whose question a is, among those who wait for the flight; false: it is over, or those who wait
// there have waited long enough.
func (fl *flight) waitForLocked(f *Forward, a *asking) bool {
	if a.isWaitedFor {
		return a.queued.in != nil
	}
	f.flights.mu.Lock()
	defer f.flights.mu.Unlock()
	if f.flights.byKey[fl.key] != fl {
		return false
	}
	fl.waiting++
	fl.joined++
	a.isWaitedFor = true
	fl.lane.enqueueLocked(a, lastWait, time.Now())
	return true
}

// release has the Handler answer those who wait for the flight in a lane, as there may be something for them meanwhile.
func (fl *flight) release() {
	n := fl.lane
	if n == nil {
		return
	}
	n.mu.Lock()
	var waiting []*dnsserver.Later
	if a := fl.place; a.flight == fl {
		waiting, a.waiting = a.waiting, nil
		n.dequeueLocked(a)
	}
	n.mu.Unlock()
	handle(waiting, &dnsserver.Tried{})
}

// laneFor is the lane that would ask a question, and its key there; nil: none would.
func (f *Forward) laneFor(q question) (n *lane, key []byte) {
	if len(f.lanes) == 0 || q.qclass != dns.ClassINET || !q.rd {
		return nil, nil
	}
	key, ok := appendQuestion(nil, q)
	if !ok {
		return nil, nil
	}
	return f.laneOf(key), key
}
