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

// Applier carries plans out, on this host. Only one may work at a time: see Lock.
type Applier struct {
	// Tell is told each step before it is done, or undone; nil: nobody wants to know.
	Tell func(sentence string)
	// Step, if not nil, is called at each moment at which a test may end the process.
	Step func(moment string)

	root  string // what is before every path; "": nothing
	other doer   // does, for a test, what takes units, sockets and NetworkManager; nil: this host's own
}

// A doer carries steps out that are about more than files, and goes back.
type doer interface {
	do(ctx context.Context, a Applier, j *Journal, s Step) error
	undo(ctx context.Context, a Applier, j *Journal, s Step) error
}

func (a Applier) base() string { return cmp.Or(a.root, root) }

// ErrRefused says that a plan was not begun.
var ErrRefused = errors.New("nothing has been changed")

// root is where units and sockets are the host's.
const root = "/"

// Apply carries the plan out. When a step fails, it goes all the way back, and the error says both.
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

// Continue does what is left of a migration that was begun.
func (a Applier) Continue(ctx context.Context, j *Journal) error {
	if j.Phase != Applying {
		return fmt.Errorf("the migration is %s, and not to be continued", j.Phase)
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

// back undoes what a failure left. A context that has ended must not keep a node from it.
func (a Applier) back(ctx context.Context, j *Journal, why error) error {
	a.tell("go back: " + why.Error())
	if err := a.Undo(context.WithoutCancel(ctx), j); err != nil {
		return fmt.Errorf("%w; and going back: %w", why, err)
	}
	return fmt.Errorf("%w; all is as it was before", why)
}

// Undo goes all the way back, the last step first, and then makes every file what it was. What fails is told at the end, and
// keeps nothing else from being undone; the journal stays then, for another try. The node resolv.conf stays for a kubelet that was
// pointed at it: what that has in memory no file takes back.
func (a Applier) Undo(ctx context.Context, j *Journal) error {
	j.Phase = Undoing
	takeFromOpenresolv(a.base(), j.Saved)
	kubelet := j.setsKubelet()
	if kubelet {
		j.Saved = slices.DeleteFunc(j.Saved, func(s Saved) bool { return s.Path == nodeResolvConf && s.Kind == "absent" })
	}
	written := j.write(a.base()) // on a full disk, say, it cannot be: all the more the node is to be as it was
	var errs []error
	for _, step := range slices.Backward(j.Steps[:min(j.Done+1, len(j.Steps))]) {
		a.moment("before undoing " + string(step.Kind))
		errs = append(errs, a.undo(ctx, j, step))
		a.moment("after undoing " + string(step.Kind))
	}
	errs = append(errs, a.restoreAll(j.Saved))
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

// restoreAll makes every path what it was: a directory goes after what is in it.
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

// unpoint gives resolv.conf back while node-dns still answers those who have just read it. Where a unit gets port 53 back, givePort does.
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
