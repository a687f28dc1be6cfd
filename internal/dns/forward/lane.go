package forward

import (
	"encoding/binary"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/dns/dnswire"
	"github.com/node-dns/node-dns/internal/dns/exchange"
	"github.com/node-dns/node-dns/internal/sys/rawsock"
)

// A lane is an event loop with one goroutine, the watcher. It owns the questions that hash to it,
// with their sockets and timers. A question needs no goroutine and no stack of its own.
type lane struct {
	f       *Forward
	bell    *rawsock.Bell
	index   int // among the lanes
	closing atomic.Bool
	senders sync.WaitGroup // of first queries; added only while the lane is locked and not closed

	// Owned by the watcher.
	poll      poll
	out       dnsserver.ResponseBatch
	pace      rawsock.Pace
	now       time.Time // time of the current event
	mailBatch []mail
	lingering int // open tries of ended flights

	mu       sync.Mutex      // guards the fields below
	asked    [chains]*flight // by hash of the key, linked by twin
	order    line            // of asked
	timers   timers
	slots    []*try    // tries with a socket; nil if free
	free     []int     // slots
	idle     [2][]*try // by family; tries whose socket serves no question
	spare    []*flight
	mail     []mail
	ids      exchange.IDs
	isInside bool // the watcher polls in the kernel and needs no deadline
	closed   bool
}

// A mail reports an event from another goroutine to the watcher.
type mail struct {
	// t ended with msg or wire (over TCP or TLS) or with err.
	t        *try
	msg      *dns.Msg
	wire     dnswire.Response // instead of msg
	err      error
	isStream bool

	fl     *flight // needs more than its first query or, with isLeft, has lost all waiters
	isLeft bool

	unreachable *route // all its servers are silent
}

// poll holds the epoll instance and the buffers of the watcher.
type poll struct {
	epoll  int
	wake   *os.File // eventfd(2) that signals mail
	wakeFD int
	events [64]unix.EpollEvent
	tries  [64]*try // owners of the events; nil for a late event
	buffer []byte
}

// post sends mail to the watcher.
func (n *lane) post(m mail) {
	n.mu.Lock()
	isFirst := len(n.mail) == 0
	n.postLocked(m)
	n.mu.Unlock()
	if isFirst { // otherwise the first one's sender wakes it
		n.wake()
	}
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

func (n *lane) wakeLocked() {
	if !n.isInside {
		n.bell.SetDeadline(n.timers.first())
	}
}

// setTimerLocked sets the timer of a flight; the zero time stops it.
func (n *lane) setTimerLocked(fl *flight, due time.Time) {
	n.timers.set(fl, due)
	if fl.place == 1 {
		n.wakeLocked()
	}
}

// timers is a heap of flights by due time. Each flight stores its index, counted from 1.
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

// A link is a flight's node in a line.
type link struct{ older, newer *flight }

// A line is a linked list of flights, oldest first.
type line struct{ oldest, newest *flight }

// The lines of an asked flight.
const (
	inLane  = iota // line of its lane
	inRoute        // line of its lane and route
)

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
