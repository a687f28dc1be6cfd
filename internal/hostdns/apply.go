package hostdns

import (
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

// Verdict says what a run did with /etc/resolv.conf.
type Verdict string

const (
	Written  Verdict = "written"  // it points at this node now
	Kept     Verdict = "same"     // it was right already
	Waiting  Verdict = "waiting"  // it will, once the local nameserver answers
	Restored Verdict = "restored" // it has the original nameservers again
	Held     Verdict = "held"     // left as it is: Plan.Hold says why
	Blocked  Verdict = "blocked"  // it cannot be written: read-only or immutable
	Failed   Verdict = "failed"   // writing it failed otherwise
)

// Applier carries Plans out. The zero value works on the host; a lock is the caller's business (see Lock).
type Applier struct {
	Writer atomicfile.Writer
	// Answers asks whether the local nameserver answers, as Probe does; nil error: it does. Nil: Probe.
	Answers func(ctx context.Context, nameserver netip.AddrPort, patient bool) (by string, err error)
	// TellNetworkManager has it read its configuration again, and returns when it has. Nil: over the system bus.
	TellNetworkManager func(ctx context.Context) error
	// RenewResolvConf makes NetworkManager write resolv.conf again, and returns when it has. Nil: over the system bus.
	RenewResolvConf func(ctx context.Context) error
	// TellResolved has systemd-resolved read its configuration again, and returns when it has. Nil: through systemd.
	TellResolved func(ctx context.Context) error
	// Progress is told what is written or asked; nil: nobody wants to know.
	Progress *Progress
}

// Result is what came of a Plan.
type Result struct {
	ResolvConf Verdict
	AnsweredBy string   // what the local nameserver calls itself; "" when it does not say, or was not asked
	Silence    error    // why the local nameserver did not answer; nil when it did or was not asked
	Written    []string // the paths that were changed, in order
}

// Undo puts back what an Apply displaced, last change first.
type Undo func() error

// Apply carries the plan out in law 4's order: capture the upstreams; ask whether the local nameserver answers; only
// then, and only when all of the capture is done, point resolv.conf at it. The way back to the original nameservers
// waits for nothing. Undo is never nil, an error or not.
func (a Applier) Apply(ctx context.Context, p Plan) (Result, Undo, error) {
	sweepErr := a.sweep(p.Paths)
	captured, captureErr := a.each(ctx, p.Capture)
	by, silence := a.ask(ctx, p)
	steps, verdict := p.decide(silence == nil)
	if verdict == Written && captureErr != nil && !p.Ours {
		steps, verdict = nil, Held
	}
	if silence != nil && ctx.Err() != nil {
		// The time was up: that says nothing about the nameserver.
		steps, verdict, captureErr = nil, Failed, errors.Join(captureErr, silence)
	}
	before, after := p.around(verdict)
	shielded, shieldErr := a.each(ctx, before)
	decisive := p.decisive(steps, verdict)
	pointed, err := a.all(ctx, steps, decisive)
	if err != nil && !pointed.has(decisive) {
		verdict = Failed
		if atomicfile.Blocked(err) {
			verdict = Blocked
		}
		if !p.Ours {
			err = errors.Join(err, a.undo(ctx, shielded)) // whoever wrote it must be able to go on
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
		} else if err == nil && unshieldErr == nil { // a NetworkManager that has not heard yet may still write
			forgotten, settleErr = a.each(ctx, forget)
		}
	}
	done := slices.Concat(captured, shielded, pointed, unshielded, settled, forgotten)
	noteErr := a.note(ctx, p, done, verdict == Restored)
	result := Result{ResolvConf: verdict, AnsweredBy: by, Silence: silence, Written: done.paths()}
	return result, func() error { return a.undo(ctx, done) }, errors.Join(sweepErr, captureErr, shieldErr, err, unshieldErr, settleErr, noteErr)
}

// settle reads resolv.conf back, and puts what it is to hold there once more if that has gone: told to write it again, a
// NetworkManager without a nameserver of its own writes an empty file. A usable file of NetworkManager's is its answer.
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
		err = fmt.Errorf("%s does not keep what was put back: somebody else writes it", p.Paths.host(want.Path))
	}
	return settled, err
}

// stands reports whether resolv.conf is as a step left it, or names a nameserver all the same.
func (p *Plan) stands(want Step, now File) bool {
	same := now.Link == want.Target && (want.Target != "" || now.is(want.Data))
	return now.Err == nil && (same || p.usable(now.Data) || want.Target == "" && !p.usable(want.Data))
}

// note keeps the history of rewrites, which a restore ends.
func (a Applier) note(ctx context.Context, p Plan, done changes, given bool) error {
	text := p.past.after(p.Paths, done, given)
	if len(done) == 0 && !p.isRestore() {
		return nil
	}
	step := Step{Path: p.Paths.Rewrites, Action: WriteFile, Data: text, Mode: 0o644}
	if len(text) == 0 || p.isRestore() {
		step.Action = Remove
	}
	_, err := a.change(ctx, step)
	return err
}

// sweep removes what a run that was killed left beside the files, wherever this run has nothing to write.
func (a Applier) sweep(paths Paths) error {
	var errs []error
	for _, path := range []string{paths.ResolvConf, paths.Upstreams, paths.NodeResolvConf, paths.Original, paths.Record, paths.Facts, paths.Snippet, paths.DropIn, paths.Rewrites, paths.Kubeconfig} {
		a.Progress.is("clearing up beside %s", path)
		if err := a.Writer.Sweep(path); !atomicfile.Blocked(err) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// ask asks the local nameserver, where anything depends on that. Only where resolv.conf names us already is a silent one
// worth waiting for: it may be restarting.
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

// each takes every step, whatever becomes of the others, and returns those that changed something.
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

// all takes the steps until one fails. Half of a change to path (its original saved, itself not written) is none, and is
// taken back. What follows a change that took effect is not worth it: a nameserver that answers again is not given up
// because the saved original cannot be removed, or the directory cannot be synced.
func (a Applier) all(ctx context.Context, steps []Step, path string) (done changes, err error) {
	for _, step := range steps {
		changed, err := a.step(ctx, step)
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

// step takes one step and reports whether it changed the file. What somebody is told of is told in any case: that nothing
// changed may be because an earlier run ended between the two.
func (a Applier) step(ctx context.Context, step Step) (changed bool, err error) {
	changed, err = a.change(ctx, step)
	if step.Tell != nobody && (err == nil || step.Tell == networkManager) {
		err = errors.Join(err, a.tell(ctx, step.Tell))
	}
	if step.Renew && err == nil {
		a.Progress.is("telling NetworkManager to write %s", step.Path)
		renew := a.RenewResolvConf
		if renew == nil {
			renew = RenewResolvConf
		}
		err = renew(ctx)
	}
	return changed || step.isRetold(), err
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
			return false, fmt.Errorf("making the directory of %s: %w", step.Path, err)
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

// revertTimeout bounds one step back, which is taken even when the run's time is up: NetworkManager or systemd-resolved is
// told once.
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

// changes are steps that took effect, in their order.
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
