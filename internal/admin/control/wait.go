package control

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
)

// ErrNotReady says that the daemon runs, and does not yet answer as it is to.
var ErrNotReady = errors.New("node-dns is not ready")

// waitPause is how often the daemon is asked. It costs it a millisecond.
const waitPause = 100 * time.Millisecond

// AwaitReady returns nil when the daemon that listens on path, or comes to, is ready: every address is bound, and there is somebody to
// forward to. When ctx ends first it returns what was in the way last: ErrNotRunning, or ErrNotReady with the reasons. Where it may not ask
// it returns that at once.
func AwaitReady(ctx context.Context, path string) error {
	tick := time.NewTicker(waitPause)
	defer tick.Stop()
	reason := fmt.Errorf("%w: it does not say how it is", ErrNotReady)
	for {
		status, err := FetchStatus(ctx, path)
		switch {
		case err == nil && status.Ready:
			return nil
		case err == nil:
			reason = notReady(status)
		case errors.Is(err, os.ErrPermission):
			return err
		case ctx.Err() == nil: // one that ends while it answers may come back
			reason = err
		}
		select {
		case <-ctx.Done():
			return reason
		case <-tick.C:
		}
	}
}

func notReady(s Status) error {
	if len(s.Problems) == 0 {
		return fmt.Errorf("%w: it is starting", ErrNotReady)
	}
	return fmt.Errorf("%w: %s", ErrNotReady, strings.Join(s.Problems, "; "))
}
