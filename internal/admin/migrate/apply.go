package migrate

import (
	"cmp"
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

// Applier carries out plans on this host. Only one may run at a time; see Lock.
type Applier struct {
	// Tell is called with each step before the step is done or undone. nil disables it.
	Tell func(sentence string)
	// Step, if not nil, is called at each point where a test may kill the process.
	Step func(moment string)

	root  string // prefix of every path; may be empty
	other doer   // replaces, in tests, steps that involve units, sockets and NetworkManager; nil for this host's own
}

// doer does and undoes steps that are about more than files.
type doer interface {
	do(ctx context.Context, a Applier, j *Journal, s Step) error
	undo(ctx context.Context, a Applier, j *Journal, s Step) error
}

func (a Applier) base() string { return cmp.Or(a.root, root) }

// ErrRefused means that the plan was not started.
var ErrRefused = errors.New("nothing has been changed")

// root is the root of the running host, with its units and sockets.
const root = "/"

// Apply carries out the plan. If a step fails, Apply undoes everything, and the error reports both.
func (a Applier) Apply(ctx context.Context, p Plan) error {
	if len(p.Refused) > 0 {
		return fmt.Errorf("%w: %s", ErrRefused, p.Refused[0])
	}
	j := Journal{Phase: Applying, Began: time.Now().UTC().Truncate(time.Second), Findings: p.Findings, Steps: p.Steps}
	for _, step := range p.Steps {
		for _, path := range step.Touches {
			if slices.ContainsFunc(j.Saved, func(s Saved) bool { return s.Path == path }) {
				continue
			}
			saved, err := save(a.base(), path)
			if err != nil {
				return fmt.Errorf("%w: %w", ErrRefused, err)
			}
			j.Saved = append(j.Saved, saved)
		}
	}
	j.Before = askBefore(ctx, p)
	if err := j.write(a.base()); err != nil {
		return fmt.Errorf("%w: %w", ErrRefused, err)
	}
	return a.Continue(ctx, &j)
}

// Continue does the remaining steps of an unfinished migration.
func (a Applier) Continue(ctx context.Context, j *Journal) error {
	if j.Phase != Applying {
		return fmt.Errorf("the migration is %s and cannot be continued", j.Phase)
	}
	for j.Done < len(j.Steps) {
		step := j.Steps[j.Done]
		a.tell(step.What)
		a.moment("before " + string(step.Kind))
		if err := a.do(ctx, j, step); err != nil {
			return a.back(ctx, j, err)
		}
		a.moment("after " + string(step.Kind))
		j.Done++
		if err := j.write(a.base()); err != nil {
			return a.back(ctx, j, err)
		}
	}
	j.Phase = Applied
	return j.write(a.base())
}

// back undoes everything after a failure, even if ctx has ended.
func (a Applier) back(ctx context.Context, j *Journal, why error) error {
	a.tell("undo: " + why.Error())
	if err := a.Undo(context.WithoutCancel(ctx), j); err != nil {
		return fmt.Errorf("%w; undoing the migration failed: %w", why, err)
	}
	return fmt.Errorf("%w; all changes were undone", why)
}

// Undo undoes all steps, the last one first, and then restores every file. A failure does not stop
// the rest from being undone. It is reported at the end, and the journal is kept for another
// attempt. The node resolv.conf stays if a kubelet was configured to read it, because a running
// kubelet keeps that path in memory.
func (a Applier) Undo(ctx context.Context, j *Journal) error {
	j.Phase = Undoing
	takeFromOpenresolv(a.base(), j.Saved)
	takeNewer(a.base(), j.Began, j.Saved)
	kept := a.keepEdits(j)
	kubelet := j.setsKubelet()
	if kubelet {
		j.Saved = slices.DeleteFunc(j.Saved, func(s Saved) bool { return s.Path == nodeResolvConf && s.Kind == "absent" })
	}
	written := j.write(a.base()) // may fail, for example on a full disk; the undo must still be done
	var errs []error
	for _, step := range slices.Backward(j.Steps[:min(j.Done+1, len(j.Steps))]) {
		a.moment("before undoing " + string(step.Kind))
		errs = append(errs, a.undo(ctx, j, step))
		a.moment("after undoing " + string(step.Kind))
	}
	errs = append(errs, kept, a.restoreAll(j.Saved))
	a.moment("restored")
	if kubelet {
		a.tell(stillRead)
		errs = append(errs, a.keepForKubelet())
	}
	if err := errors.Join(errs...); err != nil {
		return errors.Join(err, written)
	}
	return remove(filepath.Join(a.base(), JournalFile))
}

// restoreAll restores every path. A directory is removed after its content.
func (a Applier) restoreAll(saved []Saved) error {
	var errs []error
	ordered := slices.SortedStableFunc(slices.Values(saved), func(x, y Saved) int { return len(y.Path) - len(x.Path) })
	for _, s := range ordered {
		if s.Kind == "absent" {
			errs = append(errs, s.restore(a.base()))
		}
	}
	for _, s := range slices.Backward(ordered) {
		if s.Kind != "absent" {
			errs = append(errs, s.restore(a.base()))
		}
	}
	return errors.Join(errs...)
}

func (a Applier) tell(sentence string) {
	if a.Tell != nil {
		a.Tell(sentence)
	}
}

func (a Applier) moment(name string) {
	if a.Step != nil {
		a.Step(name)
	}
}

// do does one step, whether it was started before or not.
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
	return fmt.Errorf("unknown step %q", s.Kind)
}

// undo undoes one step, whether it was done, started or neither.
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

// of returns the saved state of the paths that a step touches.
func (j Journal) of(s Step) []Saved {
	return slices.DeleteFunc(slices.Clone(j.Saved), func(saved Saved) bool { return !slices.Contains(s.Touches, saved.Path) })
}

func systemctl(ctx context.Context, argv ...string) error {
	_, err := command(ctx, append([]string{"systemctl", "--quiet"}, argv...)...)
	return err
}

// start runs node-dns now and at every boot. It gets only those addresses of port 53 that are free,
// and resolv.conf stays unchanged.
func (a Applier) start(ctx context.Context, s Step) error {
	if err := stopHook(ctx); err != nil {
		return err
	}
	a.moment("unheeded")
	// systemd has just read its units. Reloading takes half a second on a busy node.
	if err := errors.Join(systemctl(ctx, "--no-reload", "enable", s.Unit), systemctl(ctx, "start", s.Unit)); err != nil {
		return err
	}
	return awaitPrepared(ctx)
}

// lookupTime is how long a process on a busy node may take from reading resolv.conf to querying the
// nameserver.
const lookupTime = time.Second

// unpoint restores resolv.conf while node-dns still answers processes that have just read the old
// one. If a unit gets port 53 back, givePort does it.
func (a Applier) unpoint(ctx context.Context, j *Journal) error {
	if slices.ContainsFunc(j.Steps, func(s Step) bool { return s.Kind == TakePort }) || !isRunning(ctx) {
		return nil
	}
	resolv, _ := j.split()
	err := errors.Join(stopHook(ctx), a.restoreAll(resolv))
	a.moment("pointed elsewhere")
	time.Sleep(lookupTime)
	return err
}

func (a Applier) unstart(ctx context.Context, j *Journal, s Step) error {
	var errs []error
	if !s.WasActive {
		// The helper keeps its addresses for a few seconds, although the daemon no longer needs
		// them.
		errs = append(errs, systemctl(ctx, "stop", s.Unit, applyPath, applyUnit), systemctl(ctx, "stop", interceptUnit))
	}
	if !s.WasEnabled {
		errs = append(errs, systemctl(ctx, "--no-reload", "disable", s.Unit))
	}
	errs = append(errs, systemctl(ctx, "unmask", "--runtime", applyPath), a.restoreAll(j.of(s)))
	if s.WasActive { // it continues, as far as other programs permit, and the hook follows its requests again
		errs = append(errs, a.setTerms(ctx, dnsserver.Alone), systemctl(ctx, "start", applyPath))
	}
	return errors.Join(errs...)
}

// mask prevents every start of a unit. A unit whose file is in /etc itself cannot be masked.
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

// release makes NetworkManager leave resolv.conf to node-dns while that runs, and write it itself
// afterwards. NetworkManager must not write it in between, so the snippet that prevents that is
// written first.
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

// await calls ok periodically until it returns true. After limit, it returns an error that names
// the condition.
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
