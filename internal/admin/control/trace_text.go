package control

import (
	"fmt"
	"time"
)

// writeTrace prints the steps to each answer that has some, and the step that took most of the
// time.
func (s Step) writeTrace(p *page) {
	for _, a := range s.Answers {
		if len(a.Trace) == 0 {
			continue
		}
		p.comment("steps to %s %s, in %s:", a.Name, a.Type, milliseconds(a.Took))
		for _, step := range a.Trace {
			p.hanging(fmt.Sprintf(";; %10s  %s", milliseconds(step.At), step.What), ";;             ")
		}
		if what, wait := a.longestWait(); wait >= worthTelling {
			p.comment("most of the time: %s of %s, after %q", milliseconds(wait), milliseconds(a.Took), what)
		}
	}
}

// worthTelling is the minimum time for naming the longest step.
const worthTelling = 5 * time.Millisecond

// longestWait returns the step with the longest time until the next one, or until the answer.
func (a Answer) longestWait() (what string, longest time.Duration) {
	for i, step := range a.Trace {
		end := a.Took
		if i+1 < len(a.Trace) {
			end = a.Trace[i+1].At
		}
		if wait := end - step.At; wait > longest {
			what, longest = step.What, wait
		}
	}
	return what, longest
}

// tracer records the steps of a question that this process sends. A nil tracer records nothing.
type tracer struct {
	began time.Time
	steps []TraceStep
}

func newTracer(question Question) *tracer {
	if !question.Trace {
		return nil
	}
	return &tracer{began: time.Now()}
}

func (t *tracer) note(format string, args ...any) {
	if t != nil {
		t.steps = append(t.steps, TraceStep{time.Since(t.began), fmt.Sprintf(format, args...)})
	}
}

func (t *tracer) noted() []TraceStep {
	if t == nil {
		return nil
	}
	return t.steps
}
