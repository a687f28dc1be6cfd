package forward

import (
	"encoding/binary"
	"time"

	"github.com/miekg/dns"
)

// A mail reports an event from another goroutine to the watcher.
type mail struct {
	// t ended with msg, over TCP or TLS, or with err.
	t        *try
	msg      *dns.Msg
	err      error
	isStream bool

	fl     *flight // needs more than its first query or, if isLeft, has lost all waiters
	isLeft bool

	dark *route // all its servers are silent
}

// post sends mail to the watcher.
func (n *lane) post(m mail) {
	n.mu.Lock()
	n.postLocked(m)
	n.mu.Unlock()
	n.wake()
}

// postLocked is post for callers that hold the lock. They must call wake after unlocking.
func (n *lane) postLocked(m mail) {
	if m.t != nil {
		m.t.holds.Add(1)
	}
	n.mail = append(n.mail, m)
}

func (n *lane) wake() {
	var one [8]byte
	binary.NativeEndian.PutUint64(one[:], 1) // writes add up, and block when the counter overflows
	_, _ = n.poll.wake.Write(one[:])         // fails after the lane has ended
}

// tellLanes sends mail to the watchers of all lanes.
func (f *Forward) tellLanes(m mail) {
	if lanes := f.lanes.Load(); lanes != nil {
		for _, n := range *lanes {
			n.post(m)
		}
	}
}

// setTimerLocked sets the timer of a flight; the zero time stops it.
func (n *lane) setTimerLocked(fl *flight, due time.Time) {
	n.timers.set(fl, due)
	if fl.place == 1 {
		n.wakeLocked()
	}
}

func (n *lane) wakeLocked() {
	if !n.isInside {
		n.bell.SetDeadline(n.timers.first())
	}
}

// timers is a heap of flights by due time. Each flight knows its place, counted from 1.
type timers []*flight

// first returns when the first timer is due, or zero.
func (h timers) first() time.Time {
	if len(h) == 0 {
		return time.Time{}
	}
	return h[0].due
}

func (h *timers) set(fl *flight, due time.Time) {
	fl.due = due
	switch {
	case due.IsZero():
		h.remove(fl)
		return
	case fl.place == 0:
		*h = append(*h, fl)
		fl.place = len(*h)
	}
	h.down(h.up(fl.place - 1))
}

func (h *timers) remove(fl *flight) {
	if fl.place == 0 {
		return
	}
	i, last := fl.place-1, len(*h)-1
	h.swap(i, last)
	(*h)[last] = nil
	*h = (*h)[:last]
	fl.place = 0
	if i < last {
		h.down(h.up(i))
	}
}

func (h timers) up(i int) int {
	for i > 0 && h[i].due.Before(h[(i-1)/2].due) {
		h.swap(i, (i-1)/2)
		i = (i - 1) / 2
	}
	return i
}

func (h timers) down(i int) {
	for {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(h); child++ {
			if h[child].due.Before(h[least].due) {
				least = child
			}
		}
		if least == i {
			return
		}
		h.swap(i, least)
		i = least
	}
}

func (h timers) swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i+1, j+1
}
