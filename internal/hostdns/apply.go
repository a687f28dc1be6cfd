package hostdns

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"

	"github.com/node-dns/node-dns/internal/atomicfile"
)

// Verdict says what a run did with /etc/resolv.conf.
type Verdict string

const (
	Written  Verdict = "written"  // it points at this node now
	Kept     Verdict = "same"     // it was right already
	Waiting  Verdict = "waiting"  // it will, once the local nameserver answers
	Restored Verdict = "restored" // it has the original nameservers again
	Held     Verdict = "held"     // left alone: Plan.Hold says why
	Blocked  Verdict = "blocked"  // it cannot be written: read-only or immutable
	Failed   Verdict = "failed"   // writing it failed otherwise
)

// Applier carries Plans out. The zero value works on the host; a lock is the caller's business (see Lock).
type Applier struct {
	Writer atomicfile.Writer
	// Answers asks whether the local nameserver answers; nil error: it does. Nil: Probe.
	Answers func(ctx context.Context, nameserver netip.AddrPort, patient bool) error
}

// Result is what came of a Plan.
type Result struct {
	ResolvConf Verdict
	Silence    error    // why the local nameserver did not answer; nil when it did or was not asked
	Written    []string // the paths that were changed, in order
}

// Undo puts back what an Apply displaced, last change first.
type Undo func() error

// Apply carries the plan out in law 4's order: capture the upstreams; ask whether the local nameserver answers; only
// then point resolv.conf at it. An error in one part does not stop the other: upstreams that cannot be written are no
// reason to leave resolv.conf on a dead server. Undo is never nil.
func (a Applier) Apply(ctx context.Context, p Plan) (Result, Undo, error) {
	var done undoLog
	var result Result
	captureErr := a.steps(p.Capture, &result, &done)

	steps, verdict, silence := a.choose(ctx, p)
	result.ResolvConf, result.Silence = verdict, silence
	var here undoLog
	err := a.steps(steps, &result, &here)
	if err != nil {
		result.ResolvConf = Failed
		if atomicfile.Blocked(err) {
			result.ResolvConf = Blocked
		}
		// Half of a change to resolv.conf (its original saved, itself not written) is none.
		err = errors.Join(err, here.undo())
		here = nil
	}
	done = append(done, here...)
	return result, done.undo, errors.Join(captureErr, err)
}

// choose asks the local nameserver and says which steps follow from that.
func (a Applier) choose(ctx context.Context, p Plan) ([]Step, Verdict, error) {
	var silence error
	switch {
	case p.Hold != "":
		return nil, Held, nil
	case p.Nameserver.IsValid():
		silence = a.ask(ctx, p)
	}
	switch {
	case p.Nameserver.IsValid() && silence == nil && len(p.Answers) == 0:
		return nil, Kept, nil
	case p.Nameserver.IsValid() && silence == nil:
		return p.Answers, Written, nil
	case len(p.Silent) == 0 && p.Nameserver.IsValid():
		return nil, Waiting, silence
	}
	return p.Silent, Restored, silence
}

func (a Applier) ask(ctx context.Context, p Plan) error {
	answers := a.Answers
	if answers == nil {
		answers = Probe
	}
	// Only where resolv.conf names us already is a silent nameserver worth waiting for: it may be restarting.
	return answers(ctx, p.Nameserver, len(p.Silent) > 0)
}

func (a Applier) steps(steps []Step, result *Result, done *undoLog) error {
	for _, step := range steps {
		changed, err := a.step(step)
		if err != nil {
			return err
		}
		if changed {
			result.Written = append(result.Written, step.Path)
			*done = append(*done, func() error { return a.revert(step) })
		}
	}
	return nil
}

func (a Applier) step(step Step) (bool, error) {
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
		return a.Writer.Write(step.Path, step.Data, step.Mode)
	}
}

func (a Applier) revert(step Step) error {
	back := Step{Path: step.Path, Action: WriteFile, Data: step.Before.Data, Mode: step.Before.Mode}
	switch {
	case !step.Before.Exists:
		back.Action = Remove
	case step.Before.Link != "":
		back.Action, back.Target = MakeLink, step.Before.Link
	}
	_, err := a.step(back)
	return err
}

// undoLog are the ways back, in the order of the changes.
type undoLog []func() error

func (l undoLog) undo() error {
	var errs []error
	for _, back := range slices.Backward(l) {
		errs = append(errs, back())
	}
	return errors.Join(errs...)
}
