package hostdns

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/node-dns/node-dns/internal/sys/atomicfile"
)

// Verdict is a run's outcome for /etc/resolv.conf.
type Verdict string

const (
	Written  Verdict = "written"  // now points at this node
	Kept     Verdict = "same"     // was already correct
	Waiting  Verdict = "waiting"  // will point at this node once the local nameserver answers
	Restored Verdict = "restored" // has the original nameservers again
	Held     Verdict = "held"     // unchanged; Plan.Hold is the reason
	Blocked  Verdict = "blocked"  // cannot be written: read-only or immutable
	Failed   Verdict = "failed"   // writing failed for another reason
)

// Applier carries out Plans. The zero value works on the host. The caller must hold the lock (see
// Lock).
type Applier struct {
	Writer atomicfile.Writer
	// Answers checks whether the local nameserver answers, as Probe does. A nil error means that it
	// does. nil uses Probe.
	Answers func(ctx context.Context, nameserver netip.AddrPort, patient bool) (by string, err error)
	// TellNetworkManager makes NetworkManager reload its configuration and returns when that is
	// done. nil uses the system bus.
	TellNetworkManager func(ctx context.Context) error
	// RenewResolvConf makes NetworkManager rewrite resolv.conf and returns when that is done. nil
	// uses the system bus.
	RenewResolvConf func(ctx context.Context) error
	// TellResolved makes systemd-resolved read its configuration again and returns when that is
	// done. nil asks systemd.
	TellResolved func(ctx context.Context) error
	// Progress records the current step; nil disables it.
	Progress *Progress
}

// Result is the outcome of applying a Plan.
type Result struct {
	ResolvConf Verdict
	AnsweredBy string   // what the local nameserver calls itself; "" if it gives no name or was not queried
	Silence    error    // why the local nameserver did not answer; nil if it did or was not queried
	Written    []string // the changed paths, in order
}

// Undo reverts what an Apply changed, last change first.
type Undo func() error

// Apply carries out the plan in a fixed order. It captures the upstreams, then checks whether the
// local nameserver answers. It points resolv.conf at this node only if that nameserver answers and
// the whole capture succeeded. Going back to the original nameservers does not depend on the
// capture. Undo is never nil, even with an error.
func (a Applier) Apply(ctx context.Context, p Plan) (Result, Undo, error) {
	sweepErr := a.sweep(p.Paths)
	captured, captureErr := a.each(ctx, p.Capture)
	by, silence := a.ask(ctx, p)
	steps, verdict := p.decide(silence == nil)
	if verdict == Written && captureErr != nil && !p.Ours {
		steps, verdict = nil, Held
	}
	if silence != nil && ctx.Err() != nil {
		// The deadline passed. That says nothing about the nameserver.
		steps, verdict, captureErr = nil, Failed, errors.Join(captureErr, silence)
	}
	before, after := p.around(verdict)
	shielded, shieldErr := a.each(ctx, before)
	decisive := p.decisive(steps, verdict)
	pointed, err := a.all(ctx, p, steps, decisive)
	if err != nil && !pointed.has(decisive) {
		verdict = Failed
		if atomicfile.Blocked(err) {
			verdict = Blocked
		}
		if !p.Ours {
			err = errors.Join(err, a.undo(ctx, shielded)) // the program that wrote it must be able to continue
			shielded = nil
		}
	}
	unshielded, unshieldErr := a.each(ctx, after)
	forget := p.forgets(verdict)
	var settled, forgotten changes
	var settleErr error
	if len(after)+len(forget) > 0 {
		if settled, settleErr = a.settle(ctx, &p, pointed); settleErr != nil {
			verdict = Failed
		} else if err == nil && unshieldErr == nil { // NetworkManager may still write the file if it has not reloaded yet
			forgotten, settleErr = a.each(ctx, forget)
		}
	}
	done := slices.Concat(captured, shielded, pointed, unshielded, settled, forgotten)
	var noteErr error
	if !p.isRestore() || !errors.Is(err, errNewer) { // the next plan needs the history
		noteErr = a.note(ctx, p, done, verdict)
	}
	result := Result{ResolvConf: verdict, AnsweredBy: by, Silence: silence, Written: done.paths()}
	return result, func() error { return a.undo(ctx, done) }, errors.Join(sweepErr, captureErr, shieldErr, err, unshieldErr, settleErr, noteErr)
}

// settle reads resolv.conf back and writes the wanted content again if it is gone: when told to
// write the file, NetworkManager writes an empty one if it has no nameserver itself. A usable file
// from NetworkManager stays.
func (a *Applier) settle(ctx context.Context, p *Plan, done changes) (changes, error) {
	want := p.found.restoring(p.Paths.ResolvConf)
	for _, step := range done {
		if step.Path == want.Path {
			want = step
		}
	}
	a.Progress.is("reading %s back", want.Path)
	now := ReadFile(p.Paths.Root, want.Path)
	if p.stands(want, now) {
		return nil, nil
	}
	want.Before = now
	settled, err := a.each(ctx, []Step{want})
	if err == nil && !p.stands(want, ReadFile(p.Paths.Root, want.Path)) {
		err = fmt.Errorf("%s does not keep the restored content: another program writes it", p.Paths.host(want.Path))
	}
	return settled, err
}

// stands reports whether resolv.conf is still as the step want left it, or names another usable
// nameserver. It also returns true if want itself has no usable nameserver.
func (p *Plan) stands(want Step, now File) bool {
	same := now.Link == want.Target && (want.Target != "" || now.is(want.Data))
	return now.Err == nil && (same || p.usable(now.Data) || want.Target == "" && !p.usable(want.Data))
}

// note updates the history of rewrites. A restore removes it.
func (a Applier) note(ctx context.Context, p Plan, done changes, verdict Verdict) error {
	text := p.past.after(p.Paths, done, verdict == Restored)
	if verdict == Kept {
		text = p.past.kept(p.Paths, text, *p.found)
	}
	if len(done) == 0 && !p.isRestore() && bytes.Equal(text, p.past.rewrites.bytes()) {
		return nil
	}
	step := Step{Path: p.Paths.Rewrites, Action: WriteFile, Data: text, Mode: 0o644}
	if len(text) == 0 || p.isRestore() {
		step.Action = Remove
	}
	_, err := a.change(ctx, step)
	return err
}

// sweep removes the temporary files of killed runs. It also covers the files that this run does not
// write.
func (a Applier) sweep(paths Paths) error {
	var errs []error
	for _, path := range []string{paths.ResolvConf, paths.Upstreams, paths.NodeResolvConf, paths.Original, paths.Record, paths.Facts, paths.Snippet, paths.DropIn, paths.Rewrites, paths.Kubeconfig} {
		a.Progress.is("removing temporary files next to %s", path)
		if err := a.Writer.Sweep(path); !atomicfile.Blocked(err) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// ask queries the local nameserver if the plan depends on it. It waits for a silent one only if
// resolv.conf already names this node, because the daemon may be restarting.
func (a Applier) ask(ctx context.Context, p Plan) (by string, silence error) {
	if !p.asks() {
		return "", nil
	}
	return a.probe(ctx, p.Nameserver, p.Ours)
}

func (a Applier) probe(ctx context.Context, nameserver netip.AddrPort, patient bool) (by string, silence error) {
	a.Progress.is("asking %v", nameserver)
	if a.Answers == nil {
		return Probe(ctx, nameserver, patient)
	}
	return a.Answers(ctx, nameserver, patient)
}

// each takes every step, even after an error, and returns those that changed something.
func (a Applier) each(ctx context.Context, steps []Step) (done changes, err error) {
	var errs []error
	for _, step := range steps {
		changed, err := a.step(ctx, step)
		if changed {
			done = append(done, step)
		}
		errs = append(errs, err)
	}
	return done, errors.Join(errs...)
}

// all takes the steps until one fails. If path itself has not changed by then (its original is
// saved, but path is not written), all reverts the steps. If path has changed, all keeps the
// change: node-dns does not give up an answering nameserver because it cannot remove the saved
// original or sync the directory. It does not replace a resolv.conf that another program has
// written since the plan was made.
func (a Applier) all(ctx context.Context, p Plan, steps []Step, path string) (done changes, err error) {
	for _, step := range steps {
		guarded := a
		if step.Path == p.Paths.ResolvConf && p.found != nil {
			guarded.Writer.Check = func(path string) error { return p.found.check(p.Paths.Root, path) }
		}
		changed, err := guarded.step(ctx, step)
		if changed {
			done = append(done, step)
		}
		switch {
		case err != nil && !done.has(path):
			return nil, errors.Join(err, a.undo(ctx, done))
		case err != nil:
			return done, err
		}
	}
	return done, nil
}

// step takes one step and reports whether it changed the file. It notifies the program in step.Tell
// even if the file did not change: an earlier run may have ended between the change and the
// notification.
func (a Applier) step(ctx context.Context, step Step) (changed bool, err error) {
	changed, err = a.change(ctx, step)
	if step.Tell != noProgram && (err == nil || step.Tell == networkManager) {
		err = errors.Join(err, a.tell(ctx, step.Tell))
	}
	if step.Renew && err == nil {
		a.Progress.is("making NetworkManager write %s", step.Path)
		renew := a.RenewResolvConf
		if renew == nil {
			renew = RenewResolvConf
		}
		err = renew(ctx)
	}
	return changed || step.isNotifyOnly(), err
}

func (a Applier) change(ctx context.Context, step Step) (bool, error) {
	switch step.Action {
	case RemoveTree:
		a.Progress.is("removing %s", step.Path)
		return removeAll(ctx, step.Path)
	case RemoveDir:
		a.Progress.is("removing %s", step.Path)
		return removeEmpty(step.Path)
	}
	a.Progress.is("writing %s", step.Path)
	if step.Action != Remove {
		if err := os.MkdirAll(filepath.Dir(step.Path), 0o755); err != nil {
			return false, fmt.Errorf("creating the directory of %s: %w", step.Path, err)
		}
	}
	switch step.Action {
	case MakeLink:
		return a.Writer.Symlink(step.Path, step.Target)
	case Remove:
		return a.Writer.Remove(step.Path)
	default:
		return a.Writer.WriteOwned(step.Path, step.Data, step.Mode, step.Owner)
	}
}

// revertTimeout bounds one reverted step, which runs even after the run's deadline. NetworkManager
// or systemd-resolved is notified once.
const revertTimeout = time.Second

func (a Applier) revert(ctx context.Context, step Step) error {
	back := step.Before.restoring(step.Path)
	if back.Tell = step.Tell; step.Secret {
		back.Owner = step.Before.Owner
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), revertTimeout)
	defer cancel()
	_, err := a.step(ctx, back)
	return err
}

// changes are the steps that took effect, in order.
type changes []Step

func (c changes) paths() []string {
	var paths []string
	for _, step := range c {
		paths = append(paths, step.Path)
	}
	return paths
}

func (c changes) has(path string) bool { return slices.Contains(c.paths(), path) }

// undo takes the changes back, last first.
func (a Applier) undo(ctx context.Context, done changes) error {
	var errs []error
	for _, step := range slices.Backward(done) {
		errs = append(errs, a.revert(ctx, step))
	}
	return errors.Join(errs...)
}
