package daemon

import (
	"context"
	"time"

	"github.com/node-dns/node-dns/internal/sys/supervise"
)

const (
	// freshTimeout is how long the status waits for a look: NetworkManager may hang for 0.7 s, and what came before the
	// look takes its time too.
	freshTimeout = 2 * time.Second
	// betweenLooks spares the daemon whoever asks for its status all the time, and a host whose addresses come and go.
	betweenLooks = 100 * time.Millisecond
)

// fresh paces the looks, and has the status show what is, not what was at the last look: who asks waits for a look that
// begins after that. All who wait share one.
type fresh struct {
	asked chan chan struct{} // closed by the look that answers
}

// wait returns when a look that began after the call has ended, or ctx has.
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

// answer looks, but not before next, for who asked first and for all who wait by then.
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
