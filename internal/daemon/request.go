package daemon

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// The first repetition of a request comes after requestAgain, and each further one after twice as long: a file that
// cannot be written (read-only, or another tool that writes it back) must not make a busy circle.
const (
	requestAgain    = time.Second
	requestAgainMax = time.Minute
)

// requester asks the privileged half to bring the host's files up to date: it writes the request file that a path unit
// watches. It belongs to one goroutine.
type requester struct {
	path  string
	last  string        // what the last request asked for
	next  time.Time     // when the same may be asked for again
	delay time.Duration // the wait after that
}

// ask writes a request when pending is not empty, and says whether it did; wait is when to come back: zero when
// nothing is pending.
func (r *requester) ask(now time.Time, reason string, pending []string) (asked bool, wait time.Duration, err error) {
	want := strings.Join(pending, " ")
	switch {
	case want == "":
		r.last, r.delay = "", 0
		return false, 0, nil
	case want != r.last:
		r.delay = requestAgain
	case now.Before(r.next):
		return false, r.next.Sub(now), nil
	default:
		r.delay = min(2*r.delay, requestAgainMax)
	}
	r.last, r.next = want, now.Add(r.delay)
	text := fmt.Sprintf("%s %s: %s\n", now.UTC().Format(time.RFC3339Nano), reason, want)
	if err := os.MkdirAll(filepath.Dir(r.path), 0o755); err != nil {
		return false, r.delay, fmt.Errorf("making the runtime directory: %w", err)
	}
	if err := os.WriteFile(r.path, []byte(text), 0o644); err != nil {
		return false, r.delay, fmt.Errorf("asking for the privileged half: %w", err)
	}
	return true, r.delay, nil
}
