package dbusconn

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// maxMisses is the number of deadlines in a row that a peer must miss before that is a problem. A busy machine makes
// NetworkManager or systemd miss one, and the next try succeeds.
const maxMisses = 3

// Misses counts the deadlines that one peer has missed in a row, for a process that asks it again and again. It is a
// value; the zero value has no misses and no answer.
type Misses struct {
	inRow    int
	answered time.Time // of the last answer; zero: never
}

// After returns Misses after one more question. err is the outcome of the question, at now. An error other than a missed
// deadline ends the row: the peer is not slow, it refuses or is gone.
func (m Misses) After(err error, now time.Time) Misses {
	switch {
	case err == nil:
		return Misses{answered: now}
	case errors.Is(err, context.DeadlineExceeded):
		m.inRow++
		return m
	}
	m.inRow = 0
	return m
}

// IsTolerated reports whether the last deadline was missed, but too few in a row to report it. The caller should ask
// again soon.
func (m Misses) IsTolerated() bool { return m.inRow > 0 && m.inRow < maxMisses }

// Timeout is the deadline for the next question: twice as long after each miss that is tolerated. On a slow machine a
// second try with the first one's deadline would miss it too.
func (m Misses) Timeout(first time.Duration) time.Duration {
	if m.IsTolerated() {
		return first << m.inRow
	}
	return first
}

// Problem returns the error to report for err, the outcome of the last question: nil while the misses are tolerated, and
// a missed deadline with the time of the last answer. The text stays the same as the row grows.
func (m Misses) Problem(err error) error {
	switch {
	case m.IsTolerated():
		return nil
	case m.inRow == 0:
		return err
	case m.answered.IsZero():
		return fmt.Errorf("%w; no answer so far", err)
	}
	return fmt.Errorf("%w; the last answer came at %s", err, m.answered.UTC().Format(time.RFC3339))
}

// Retry calls ask until it returns something else than a missed deadline, at most three times, for a program that runs
// once. The first call may take as long as first says, and each further call twice as long as the one before, or less
// where ctx ends sooner: reserve is the time that the rest of the program needs. There is no further call if that leaves
// it less time than first. The error of several calls says how many there were.
func Retry(ctx context.Context, first, reserve time.Duration, ask func(context.Context) error) error {
	timeout := first
	for n := 1; ; n++ {
		err := once(ctx, timeout, ask)
		if !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
		timeout *= 2
		if deadline, ok := ctx.Deadline(); ok {
			timeout = min(timeout, time.Until(deadline)-reserve)
		}
		if n == maxMisses || ctx.Err() != nil || timeout < first {
			if n > 1 {
				err = fmt.Errorf("%w (%d tries)", err, n)
			}
			return err
		}
	}
}

func once(ctx context.Context, timeout time.Duration, ask func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return ask(ctx)
}
