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

// TakeRequest removes the daemon's request, before the run that answers it looks at anything: what is asked for during the run has the path
// unit start another. Whatever stands there goes: a directory, which no request is, would start runs for ever. It is renamed, as
// removing all that a daemon that was taken over has put there could take longer than a run may.
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

// Capture hands the daemon what it is to know when it starts, and leaves resolv.conf alone. It does nothing when another run is under way,
// which does as much: that one may be waiting for this daemon to start.
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
