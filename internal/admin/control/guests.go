package control

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"
)

// Limits on the daemon's time that all guests (callers who are not admins) use together.
const (
	guestPause = 50 * time.Millisecond // time between two of their requests
	guestBurst = 10                    // requests that pass without waiting after an idle period
	// spareFactor is how long an answer is reused, as a multiple of the time it took to make.
	spareFactor = 10
)

// hiddenFromGuests names the information that guests do not get.
var hiddenFromGuests = []string{"names and clients of queries", "cached answers"}

func isGuest(ctx context.Context) bool { return mayAsk(ctx, admin) != nil }

// guestLimiter lets requests pass one at a time. The connection limits also limit the number of
// waiting requests.
type guestLimiter struct {
	mu   sync.Mutex
	next time.Time // earliest time at which a new request may pass
}

// wait returns nil when it is the request's turn, or an error if ctx ends first. A canceled request
// returns its turn, so next is at most one guestPause per waiting request ahead of now.
func (t *guestLimiter) wait(ctx context.Context) error {
	now := time.Now()
	t.mu.Lock()
	if earliest := now.Add(-guestBurst * guestPause); t.next.Before(earliest) {
		t.next = earliest
	}
	t.next = t.next.Add(guestPause)
	turn := t.next
	t.mu.Unlock()
	timer := time.NewTimer(turn.Sub(now))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		t.mu.Lock()
		t.next = t.next.Add(-guestPause)
		t.mu.Unlock()
		return ctx.Err()
	}
}

// handler makes guests wait for their turn, even for requests that are then refused.
func (t *guestLimiter) handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if isGuest(r.Context()) {
			if err := t.wait(r.Context()); err != nil {
				reply(w, nil, fmt.Errorf("waiting for this user's turn: %w", err))
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// spare makes guests share an expensive answer: it computes one at a time and reuses it for
// spareFactor times as long as it took. It returns nil if answer is nil.
func spare[A any](answer func(context.Context) A) func(context.Context) A {
	if answer == nil {
		return nil
	}
	var mu sync.Mutex
	var last A
	var until time.Time
	return func(ctx context.Context) A {
		if !isGuest(ctx) {
			return answer(ctx)
		}
		mu.Lock()
		defer mu.Unlock()
		if began := time.Now(); began.After(until) {
			last = answer(ctx)
			now := time.Now()
			until = now.Add(spareFactor * now.Sub(began))
		}
		return last
	}
}

// Limits on the connections of guests (callers who are not admins): of all guests, and of each
// guest's user. A connection above the limit of open ones waits for a slot, up to guestPatience. A
// connection above the limit of waiting ones is closed.
const (
	maxGuests        = 8
	maxGuestsOfUser  = 4
	maxWaiting       = 16
	maxWaitingOfUser = 12
	guestPatience    = 30 * time.Second // more than the queries of maxWaitingOfUser connections, if each fails after 5 s
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

// leave frees the slot of a closed connection. Call it once for each connection. The first waiting
// connection whose user is below the limit gets it.
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

// isGiven reports whether the connection has its slot. The slot of an admin's connection is nil.
func (s *guestSlot) isGiven() bool {
	if s == nil {
		return true
	}
	select {
	case <-s.given:
		return true
	default:
		return false
	}
}

// wait returns nil when the connection has its slot, and an error if that takes too long or the
// connection is closed.
func (s *guestSlot) wait() error {
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
