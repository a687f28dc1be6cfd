package lab

import (
	"os/exec"
	"strings"
	"time"
)

// Run runs a program, waits until it ends, and returns its output.
func (l *Lab) Run(argv ...string) string {
	l.t.Helper()
	out, err := l.Try(argv...)
	if err != nil {
		l.t.Fatalf("%s: %v\n%s", strings.Join(argv, " "), err, out)
	}
	return out
}

// Try is Run for commands that may fail.
func (l *Lab) Try(argv ...string) (string, error) {
	out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput()
	return string(out), err
}

// Await polls until ok returns true. It fails the test after a minute, a limit for a stuck machine
// rather than a requirement on its speed.
func (l *Lab) Await(what string, ok func() bool) {
	l.t.Helper()
	if !Poll(time.Minute, ok) {
		l.t.Fatalf("timed out waiting for %s", what)
	}
}

// Poll calls ok until it returns true, and reports whether it did so within the limit. It pauses
// for a few milliseconds, or twice as long as the call took: calls that start programs must not
// take the CPU time of what they wait for.
func Poll(limit time.Duration, ok func() bool) bool {
	for deadline := time.Now().Add(limit); ; {
		begun := time.Now()
		if ok() {
			return true
		}
		if time.Now().After(deadline) {
			return false
		}
		time.Sleep(min(max(3*time.Millisecond, 2*time.Since(begun)), 200*time.Millisecond))
	}
}
