package control

import (
	"net"
	"os"
	"slices"
	"sync"
	"time"
)

// Limits on the connections of guests (callers who are not admins): of all guests, and of each
// guest's user. A connection above the limit of open ones waits for a slot, up to guestPatience. A
// connection above the limit of waiting ones is closed.
const (
	maxGuests        = 8
	maxGuestsOfUser  = 4
	maxWaiting       = 16
	maxWaitingOfUser = 12
	guestPatience    = time.Second
)

// guestSlots assigns slots to the connections of guests, in the order of their arrival. The methods
// are safe for concurrent use.
type guestSlots struct {
	patience time.Duration // how long a connection waits for its slot

	mu      sync.Mutex  // guards the fields below
	open    map[int]int // connections with a slot, by UID
	total   int         // sum over open
	waiting []*guestSlot
}

// guestSlot is the slot of one connection, or its place among the waiting ones.
type guestSlot struct {
	user  int
	until time.Time     // end of the wait
	given chan struct{} // closed when the connection has the slot
	left  chan struct{} // closed when the connection is closed
}

func newGuestSlots(patience time.Duration) *guestSlots {
	return &guestSlots{patience: patience, open: map[int]int{}}
}

// enter returns the slot of a new connection. It returns nil if too many of them wait.
func (s *guestSlots) enter(user int) *guestSlot {
	s.mu.Lock()
	defer s.mu.Unlock()
	slot := &guestSlot{user: user, until: time.Now().Add(s.patience), given: make(chan struct{}), left: make(chan struct{})}
	if s.isFreeLocked(user) {
		s.giveLocked(slot)
		return slot
	}
	ofUser := 0
	for _, other := range s.waiting {
		if other.user == user {
			ofUser++
		}
	}
	if len(s.waiting) >= maxWaiting || ofUser >= maxWaitingOfUser {
		return nil
	}
	s.waiting = append(s.waiting, slot)
	return slot
}

// leave takes back the slot of a closed connection, which it must be called for once. The first
// waiting connection whose user is below the limit gets it.
func (s *guestSlots) leave(slot *guestSlot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(slot.left)
	if at := slices.Index(s.waiting, slot); at >= 0 {
		s.waiting = slices.Delete(s.waiting, at, at+1)
		return
	}
	s.total--
	if s.open[slot.user]--; s.open[slot.user] == 0 {
		delete(s.open, slot.user)
	}
	if at := slices.IndexFunc(s.waiting, func(w *guestSlot) bool { return s.isFreeLocked(w.user) }); at >= 0 {
		next := s.waiting[at]
		s.waiting = slices.Delete(s.waiting, at, at+1)
		s.giveLocked(next)
	}
}

func (s *guestSlots) isFreeLocked(user int) bool {
	return s.total < maxGuests && s.open[user] < maxGuestsOfUser
}

func (s *guestSlots) giveLocked(slot *guestSlot) {
	s.total++
	s.open[slot.user]++
	close(slot.given)
}

// wait returns nil when the connection has its slot, and an error if that takes too long or the
// connection is closed. The slot of an admin's connection is nil.
func (s *guestSlot) wait() error {
	if s == nil {
		return nil
	}
	select {
	case <-s.given:
		return nil
	default:
	}
	timer := time.NewTimer(time.Until(s.until))
	defer timer.Stop()
	select {
	case <-s.given:
		return nil
	case <-s.left:
		return net.ErrClosed
	case <-timer.C:
		return os.ErrDeadlineExceeded
	}
}
