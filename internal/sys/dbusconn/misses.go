package dbusconn

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// maxMisses is the number of consecutive deadlines that a peer must miss before it is a problem. On
// a busy machine NetworkManager or systemd misses one, and the next attempt succeeds.
const maxMisses = 3

// Misses counts the consecutive deadlines that a peer has missed, for a process that queries it
// repeatedly. It is a value type. The zero value has no misses and no answer.
type Misses struct {
	inRow    int
	answered time.Time // time of the last answer; zero if never
}

// After returns the Misses after one more query, whose outcome at now is err. An error other than a
// missed deadline resets the count: the peer is not slow, it refuses or is gone.
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

// IsTolerated reports whether the last deadline was missed, but too few in a row to report it. The
// caller should retry soon.
func (m Misses) IsTolerated() bool { return m.inRow > 0 && m.inRow < maxMisses }

// Timeout returns the deadline for the next query. It doubles after each tolerated miss, because on
// a slow machine a retry with the same deadline would miss it too.
func (m Misses) Timeout(first time.Duration) time.Duration {
	if m.IsTolerated() {
		return first << m.inRow
	}
	return first
}

// Problem returns the error to report for err, the outcome of the last query. It is nil while
// misses are tolerated. For a missed deadline it includes the time of the last answer, so the text
// stays the same as misses add up.
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

// Retry calls ask until it returns something other than a missed deadline, at most three times. It
// is for a program that runs once. The first call may take as long as first, and each further call
// twice as long as the one before, but less if ctx ends sooner. reserve is the time that the rest
// of the program needs. There is no further call if less time than first would remain. After
// several calls, the error includes their number.
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
