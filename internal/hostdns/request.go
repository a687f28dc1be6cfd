package hostdns

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/internal/nm"
)

// TakeRequest removes the daemon's request before its run reads anything, so that the path unit
// starts another run for a request made during this one. It also removes a directory in its place,
// which would otherwise start runs forever. It renames a directory that is not empty: a compromised
// daemon may have put more into it than a run has time to remove.
func (r Runner) TakeRequest() error {
	path := r.Looker.Paths.Request
	r.Applier.Progress.is("taking the request %s", path)
	err := os.Remove(path)
	if errors.Is(err, unix.ENOTEMPTY) {
		err = os.Rename(path, fmt.Sprintf("%s.%d", path, time.Now().UnixNano()))
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("taking the daemon's request: %w", err)
	}
	return nil
}

// Capture writes the files that the daemon needs at its start, and leaves resolv.conf alone. It
// does nothing if another run is in progress, which does the same and may be waiting for this
// daemon to start.
func (r Runner) Capture(ctx context.Context) error {
	try, cancel := context.WithTimeout(ctx, lockPoll)
	defer cancel()
	r.Applier.Progress.is("taking the lock %s", r.Looker.Paths.Lock)
	unlock, err := Lock(try, r.Looker.Paths.Lock)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return nil
	}
	event := nm.Event{Action: "capture"}
	if err != nil {
		r.log(event, Plan{}, Result{ResolvConf: Failed}, err)
		return err
	}
	defer unlock()
	_, _, err = r.runLocked(ctx, event, func(s State) Plan { return NewPlan(s).captureOnly() })
	return err
}
