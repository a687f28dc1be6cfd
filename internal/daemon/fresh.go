package daemon

import (
	"context"
	"time"

	"github.com/node-dns/node-dns/internal/sys/supervise"
)

const (
	// freshTimeout bounds the time that the status waits for a look. NetworkManager may hang for
	// 0.7 s, and the work before the look takes time too.
	freshTimeout = 2 * time.Second
	// defaultLookInterval limits the looks caused by clients that request the status all the time,
	// and by hosts whose addresses flap.
	defaultLookInterval = 100 * time.Millisecond
)

// fresh limits the rate of looks and keeps the status current: a request waits for a look that
// begins after it. All waiting requests share one look.
type fresh struct {
	asked chan chan struct{} // closed by the look that answers
}

// wait returns when a look that began after the call has ended, or when ctx ends.
func (f *fresh) wait(ctx context.Context) {
	done := make(chan struct{})
	select {
	case f.asked <- done:
	case <-ctx.Done():
		return
	}
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// answer looks, but not before next, and answers first and all requests that wait by then.
func (f *fresh) answer(ctx context.Context, first chan struct{}, next time.Time, look func()) {
	waiting := []chan struct{}{first}
	if supervise.Sleep(ctx, time.Until(next)) {
		waiting = f.gather(waiting)
		look()
	}
	for _, done := range waiting {
		close(done)
	}
}

func (f *fresh) gather(waiting []chan struct{}) []chan struct{} {
	for {
		select {
		case done := <-f.asked:
			waiting = append(waiting, done)
		default:
			return waiting
		}
	}
}
