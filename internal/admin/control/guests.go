package control

import (
	"context"
	"fmt"
	"net/http"
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
