package forward

import (
	"time"

	"github.com/node-dns/node-dns/internal/dnsserver"
)

// A lane looks at a question again when its server has had its time, of which there are few: so the questions of each are in
// order, and nothing has to be sorted. The last queue is for those that a flight is asking.
const (
	laneWaits = 6
	lastWait  = laneWaits
)

// laneWaitsBetween are the times of the queues but the last.
func laneWaitsBetween(least, most time.Duration) (all [laneWaits]time.Duration) {
	for i := range all {
		all[i] = max(min(least<<i, most), least)
	}
	all[laneWaits-1] = max(most, least)
	return all
}

// patience is how long those who wait in a lane do so for a flight: then the Handler may have something for them meanwhile.
const patience = 400 * time.Millisecond

// laneWait is the queue of a question to a server that is waited for so long.
func (f *Forward) laneWait(wait time.Duration, isAlone bool) int {
	wait = f.bounded(wait, isAlone, 0)
	for i, w := range f.waits {
		if wait <= w {
			return i
		}
	}
	return laneWaits - 1
}

func (f *Forward) waitOf(queue int) time.Duration {
	if queue == lastWait {
		return patience
	}
	return f.waits[queue]
}

// A queue is questions in order of entering it.
type queue struct{ oldest, newest *asking }

// queued is a question's place in a queue.
type queued struct {
	in         *queue // nil: in none
	since      time.Time
	prev, next *asking
}

func (n *lane) enqueueLocked(a *asking, in int, now time.Time) {
	q := &n.queues[in]
	a.queued = queued{in: q, since: now, prev: q.newest}
	if q.newest == nil {
		q.oldest = a
		n.wakeLocked()
	} else {
		q.newest.queued.next = a
	}
	q.newest = a
}

func (n *lane) dequeueLocked(a *asking) {
	q := a.queued
	if q.in == nil {
		return
	}
	if q.prev != nil {
		q.prev.queued.next = q.next
	} else {
		q.in.oldest = q.next
	}
	if q.next != nil {
		q.next.queued.prev = q.prev
	} else {
		q.in.newest = q.prev
	}
	a.queued = queued{}
}

// dueLocked is when the watcher is to look at the queues; zero: there is nothing in them.
func (n *lane) dueLocked() (due time.Time) {
	for i := range n.queues {
		if a := n.queues[i].oldest; a != nil {
			if at := a.queued.since.Add(n.f.waitOf(i)); due.IsZero() || at.Before(due) {
				due = at
			}
		}
	}
	return due
}

// overdue has flights go on with the questions whose server has had its time, and the Handler with the queries that have
// waited long for a flight.
func (n *lane) overdue(now time.Time) {
	for a, waiting := n.nextOverdue(now); a != nil; a, waiting = n.nextOverdue(now) {
		if waiting != nil {
			handle(waiting, &dnsserver.Tried{})
		} else {
			n.f.follow(n, a)
		}
	}
}

// nextOverdue takes a question from its queue if it has had its time; nil: none has. Those who wait are returned if it is in the
// last one.
func (n *lane) nextOverdue(now time.Time) (a *asking, waiting []*dnsserver.Later) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.dropFaultyLocked() // the watcher looks at none of them now
	for i := range n.queues {
		a := n.queues[i].oldest
		if a == nil || now.Sub(a.queued.since) < n.f.waitOf(i) {
			continue
		}
		n.dequeueLocked(a)
		if i == lastWait {
			waiting, a.waiting = a.waiting, nil
			if waiting == nil {
				waiting = []*dnsserver.Later{}
			}
		}
		return a, waiting
	}
	return nil, nil
}
