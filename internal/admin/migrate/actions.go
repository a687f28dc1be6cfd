package migrate

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/hostdns"
	"github.com/node-dns/node-dns/internal/sys/atomicfile"
)

// do carries one step out, whether it was begun before or not.
func (a Applier) do(ctx context.Context, j *Journal, s Step) error {
	switch s.Kind {
	case RemoveFile:
		return remove(filepath.Join(a.base(), s.Path))
	case WriteFile:
		return s.write(a.base())
	case MakeLink:
		return s.link(a.base())
	}
	if a.other != nil {
		return a.other.do(ctx, a, j, s)
	}
	switch s.Kind {
	case Start:
		return a.start(ctx, s)
	case TakePort:
		return a.takePort(ctx, s)
	case Point:
		return a.point(ctx)
	case Mask:
		return a.mask(ctx, s)
	case Release:
		return a.release(ctx, s)
	case DropAddress:
		return dropAddress(ctx, s)
	case Check:
		return a.check(ctx, j)
	}
	return fmt.Errorf("%q is no step", s.Kind)
}

// undo carries the way back of one step out, whether that was done, begun or neither.
func (a Applier) undo(ctx context.Context, j *Journal, s Step) error {
	switch s.Kind {
	case RemoveFile, WriteFile, MakeLink:
		return a.restoreAll(j.of(s))
	}
	if a.other != nil {
		return a.other.undo(ctx, a, j, s)
	}
	switch s.Kind {
	case DropAddress:
		return restoreAddress(ctx, s)
	case Start:
		return a.unstart(ctx, j, s)
	case TakePort:
		return a.givePort(ctx, j, s)
	case Mask:
		return errors.Join(a.restoreAll(j.of(s)), systemctl(ctx, "daemon-reload"))
	case Point:
		return a.unpoint(ctx, j)
	case Release:
		return errors.Join(a.restoreAll(j.of(s)), hostdns.TellNetworkManager(ctx))
	}
	return nil
}

// of are the paths that a step touches, as they were before.
func (j Journal) of(s Step) []Saved {
	return slices.DeleteFunc(slices.Clone(j.Saved), func(saved Saved) bool { return !slices.Contains(s.Touches, saved.Path) })
}

func systemctl(ctx context.Context, argv ...string) error {
	_, err := command(ctx, append([]string{"systemctl", "--quiet"}, argv...)...)
	return err
}

// start has node-dns run now and at every boot. Of port 53 it gets what nobody else has, and resolv.conf stays as it is.
func (a Applier) start(ctx context.Context, s Step) error {
	if err := unheed(ctx); err != nil {
		return err
	}
	a.moment("unheeded")
	// The manager has just read its units; it takes half a second on a busy node.
	if err := errors.Join(systemctl(ctx, "--no-reload", "enable", s.Unit), systemctl(ctx, "start", s.Unit)); err != nil {
		return err
	}
	return awaitPrepared(ctx)
}

// lookupTime is how long a process may take, on a busy node, between reading resolv.conf and asking whom that names.
const lookupTime = time.Second

// unpoint gives resolv.conf back while node-dns still answers those who have just read it. Where another takes port 53 over
// again, somebody answers them anyway, and resolv.conf waits for its turn (givePort).
func (a Applier) unpoint(ctx context.Context, j *Journal) error {
	if slices.ContainsFunc(j.Steps, func(s Step) bool { return s.Kind == TakePort }) || !isRunning(ctx) {
		return nil
	}
	resolv, _ := j.split()
	err := errors.Join(unheed(ctx), a.restoreAll(resolv))
	a.moment("pointed elsewhere")
	time.Sleep(lookupTime)
	return err
}

func (a Applier) unstart(ctx context.Context, j *Journal, s Step) error {
	var errs []error
	if !s.WasActive {
		errs = append(errs, systemctl(ctx, "stop", s.Unit, applyPath, applyUnit))
	}
	if !s.WasEnabled {
		errs = append(errs, systemctl(ctx, "--no-reload", "disable", s.Unit))
	}
	errs = append(errs, systemctl(ctx, "unmask", "--runtime", applyPath), a.restoreAll(j.of(s)))
	if s.WasActive { // it goes on, as far as others let it, and is heeded
		errs = append(errs, a.setTerms(ctx, dnsserver.Alone), systemctl(ctx, "start", applyPath))
	}
	return errors.Join(errs...)
}

// mask keeps a unit from being started by anybody. Where its file is in /etc itself it cannot be masked.
func (a Applier) mask(ctx context.Context, s Step) error {
	if err := systemctl(ctx, "--no-reload", "disable", s.Unit); err != nil {
		return err
	}
	units, err := ShowUnits(ctx, []string{s.Unit})
	if err != nil || !maskable(s.Unit, units[s.Unit]) {
		return err
	}
	return systemctl(ctx, "mask", s.Unit)
}

// release has NetworkManager let resolv.conf be node-dns's while that runs, and its own when that has ended. In between it
// must not write it: what keeps it from that is put there before.
func (a Applier) release(ctx context.Context, s Step) error {
	paths := hostdns.NewPaths(root)
	if err := makeDir(filepath.Dir(paths.Snippet)); err != nil {
		return err
	}
	if _, err := (atomicfile.Writer{}).Write(paths.Snippet, []byte(hostdns.Snippet), 0o644); err != nil {
		return err
	}
	if err := remove(filepath.Join(a.base(), s.Path)); err != nil {
		return err
	}
	return hostdns.TellNetworkManager(ctx)
}

// await asks every while until ok, or until the time is up, which is an error that says what was waited for.
func await(ctx context.Context, what string, limit time.Duration, ok func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		is, err := ok()
		if is {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("waiting for %s: %w", what, ctx.Err()), err)
		case <-tick.C:
		}
	}
}
