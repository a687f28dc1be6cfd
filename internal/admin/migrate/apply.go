package migrate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"
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
