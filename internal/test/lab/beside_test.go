package lab

import (
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestBesideEndsWithUs: a program started by Beside ends even if the test binary is killed and
// cannot stop it.
func TestBesideEndsWithUs(t *testing.T) {
	l := New(t)
	p := l.Start(Command{Argv: []string{Binary(t, "beside")}})
	l.Await("it prints the process id", func() bool { return strings.HasSuffix(p.Output(), "\n") })
	pid, err := strconv.Atoi(strings.TrimSpace(p.Output()))
	if err != nil || !slices.Contains(others(), pid) {
		t.Fatalf("it printed %q; running processes: %v", p.Output(), others())
	}
	p.Kill()
	l.Await("what it started has ended", func() bool { return !slices.Contains(others(), pid) })
}

func TestBeside(t *testing.T) {
	Need(t)
	p, err := Beside(Command{Argv: []string{"sh", "-c", "echo $A; exec sleep 1000"}, Env: []string{"A=b", "PATH=" + Path}})
	if err != nil {
		t.Fatal(err)
	}
	if !p.Running() {
		t.Error("the program is not running")
	}
	p.Stop()
	if p.Running() || p.Output() != "b\n" && p.Output() != "" {
		t.Errorf("running %v, output %q", p.Running(), p.Output())
	}
	if _, err := Beside(Command{Argv: []string{"/nowhere/at-all"}}); err == nil || !strings.Contains(err.Error(), "/nowhere/at-all") {
		t.Errorf("a program that does not exist: %v", err)
	}
}
