package control

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
)

// ErrNotReady means that the daemon runs but is not ready.
var ErrNotReady = errors.New("node-dns is not ready")

// waitPause is the interval between requests. One costs the daemon a millisecond.
const waitPause = 100 * time.Millisecond

// AwaitReady returns nil when the daemon that listens on path, or will listen, is ready: every
// address is bound, and there is an upstream server. If ctx ends first, it returns the last
// obstacle: ErrNotRunning, or ErrNotReady with the reasons. It returns a permission error at once.
func AwaitReady(ctx context.Context, path string) error {
	tick := time.NewTicker(waitPause)
	defer tick.Stop()
	reason := fmt.Errorf("%w: it has not reported its state", ErrNotReady)
	for {
		status, err := FetchStatus(ctx, path)
		switch {
		case err == nil && status.Ready:
			return nil
		case err == nil:
			reason = notReady(status)
		case errors.Is(err, os.ErrPermission):
			return err
		case ctx.Err() == nil: // a daemon that stops while it answers may come back
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
