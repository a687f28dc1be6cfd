package control

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// Bounds of what all guests, callers who are not admins, take of the daemon's time together.
const (
	guestPause = 50 * time.Millisecond // between two of their questions
	guestBurst = 10                    // questions that need not wait after a time without any
	// spareFactor is how many times longer an answer is given again than it took to make.
	spareFactor = 10
)

// hiddenFromGuests are what the answers to guests leave out, or what is not answered at all.
var hiddenFromGuests = []string{"names and clients of queries", "cached answers"}

func isGuest(ctx context.Context) bool { return mayAsk(ctx, admin) != nil }

// turnstile lets questions pass one by one. A question waits for its turn: the bounds on connections are bounds on those that wait.
type turnstile struct {
	mu   sync.Mutex
	next time.Time // when a question may pass that did not wait for its turn
}

// wait returns nil when it is the question's turn, or an error if ctx ends first. Such a question gives its turn back: next stays within one
// guestPause of now for each question that waits.
func (t *turnstile) wait(ctx context.Context) error {
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

// handler lets guests wait for their turn, also with questions that are refused.
func (t *turnstile) handler(next http.Handler) http.Handler {
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

// spare makes guests share an answer that takes its time: one is made at a time, and given again for spareFactor times as long as it took. It
// returns nil if answer is nil.
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
