// Package lab is one isolated machine for the tests of a package: its own network, processes and mounts, with /etc, /run, /var and
// /usr/sbin to write in.
//
// It stands apart from dnstest, which fakes a peer on loopback: here nothing is faked but the hardware. The machine is the test
// binary itself, run again in new namespaces, so -run, -race, -v and -coverprofile mean what they always mean, and the kernel cleans up
// when the process ends. A package that wants one calls Main from its TestMain; a test that changes the machine calls New.
// Beside it a test may boot others, which have systemd: see Container.
package lab

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// Option is one wish to Main.
type Option func(*config)

type config struct {
	shipped []string // main packages to build as they are shipped
	raced   []string // and with -race, when the tests are
	before  []func() error

	machines int // at a time; below 2: one
}

// Build has Main build these main packages (paths from the module's root, such as "./cmd/node-dns") before the machine starts, for
// Binary to find. They are built as they are shipped.
func Build(packages ...string) Option {
	return func(c *config) { c.shipped = append(c.shipped, packages...) }
}

// BuildRace is Build for programs that do many things at once: they are built with -race when the tests are, and a race that one reports
// fails the test. It is not for those that run for milliseconds: the race detector waits for a second before it lets a process end.
func BuildRace(packages ...string) Option {
	return func(c *config) { c.raced = append(c.raced, packages...) }
}

// Before has Main call f before the machine starts: the host's network can be reached then, and later not. That f fails is shown, and no
// more: the tests that need what it was to bring see that it is missing.
func Before(f func() error) Option {
	return func(c *config) { c.before = append(c.before, f) }
}

// Main is a package's TestMain: it runs the tests in a new machine, or several (see Machines), and exits with their status.
//
// Where no machine can be made (not root, a container without the right, fuzzing), the tests run where they are, and those that call
// New or Need skip, or fail when Required.
func Main(m *testing.M, options ...Option) {
	if os.Getenv(stageEnv) != "" {
		os.Exit(runInside(m))
	}
	if !flag.Parsed() {
		flag.Parse() // testing.M.Run would do it, later
	}
	if flagValue("list") != "" {
		os.Exit(m.Run())
	}
	var c config
	for _, o := range options {
		o(&c)
	}
	reason := unavailable()
	if reason == "" {
		os.Exit(runOutside(c))
	}
	fmt.Fprintln(os.Stderr, "lab: no machine:", reason)
	os.Setenv(absentEnv, reason)
	os.Exit(m.Run())
}

// Required reports whether a test lane that cannot run is a failure: in CI, and when NODEDNS_LANES is "require".
func Required() bool {
	return os.Getenv("CI") != "" || os.Getenv("NODEDNS_LANES") == "require"
}

// Skip skips the test for want of something that this host cannot give; where Required it fails.
func Skip(t testing.TB, format string, args ...any) {
	t.Helper()
	if Required() {
		t.Fatalf(format, args...)
	}
	t.Skipf(format, args...)
}

// NeedPrograms skips the test, or fails it, unless these programs are in its PATH.
func NeedPrograms(t testing.TB, programs ...string) {
	t.Helper()
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			Skip(t, "needs %s: %v", p, err)
		}
	}
}

// Need skips the test, or fails it, unless it runs in a machine that has these programs in its PATH.
func Need(t testing.TB, programs ...string) {
	t.Helper()
	if os.Getenv(stageEnv) == "" {
		Skip(t, "needs a lab machine: %s", cmp.Or(os.Getenv(absentEnv), "lab.Main was not called by TestMain"))
	}
	NeedPrograms(t, programs...)
}

// Lab is the machine, reset for one test. Its methods fail that test; they are for the test's own goroutine unless they say otherwise.
// Tests that use one cannot run in parallel: a package has one machine.
type Lab struct {
	t     testing.TB
	procs []*Process
	files []*os.File // kept open until the test ends
}

// New resets the machine for this test: no processes but the test, no network but loopback, /etc, /usr/sbin and /var as installed but
// without any resolver's files, an empty /run. What the test leaves behind goes when it ends; the output of its processes is shown when it failed.
func New(t testing.TB) *Lab {
	t.Helper()
	Need(t, "ip")
	l := &Lab{t: t}
	l.reset()
	t.Cleanup(l.close)
	return l
}

func (l *Lab) reset() {
	l.t.Helper()
	for _, step := range []func() error{mountFiles, resetNetwork, removeResolverFiles} {
		if err := step(); err != nil {
			l.t.Fatalf("resetting the lab machine: %v", err)
		}
	}
}

func (l *Lab) close() {
	l.t.Helper()
	for _, p := range l.procs {
		if strings.Contains(p.Output(), "WARNING: DATA RACE") {
			l.t.Errorf("%s has a data race", p.name)
		}
	}
	if l.t.Failed() {
		l.dump()
	}
	killAll()
	for _, p := range l.procs {
		p.awaitExit()
	}
	for _, f := range l.files {
		f.Close()
	}
	if err := resetNetwork(); err != nil {
		l.t.Errorf("clearing the lab's network: %v", err)
	}
}
