// Package lab provides an isolated machine for the tests of a package: its own network, processes
// and mounts, with writable /etc, /run, /var and /usr/sbin.
//
// It is separate from dnstest, which simulates a peer on loopback: here only the hardware is
// simulated. The machine is the test binary itself, run again in new namespaces. So -run, -race, -v
// and -coverprofile work as usual, and the kernel cleans up when the process ends. A package that
// needs a machine calls Main from its TestMain. A test that changes the machine calls New. It may
// also boot further machines with systemd; see Container.
package lab

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

// Option is an option of Main.
type Option func(*config)

type config struct {
	shipped []string // main packages to build as released
	raced   []string // and those to build with -race if the tests are
	before  []func() error

	machines int // number of concurrent machines; below 2 means one
}

// Build makes Main build these main packages (paths from the module's root, such as
// "./cmd/node-dns") before the machine starts, for Binary. They are built as released.
func Build(packages ...string) Option {
	return func(c *config) { c.shipped = append(c.shipped, packages...) }
}

// BuildRace is Build for concurrent programs: they are built with -race if the tests are, and a
// data race fails the test. It is not for programs that run for milliseconds, because the race
// detector delays the exit by a second.
func BuildRace(packages ...string) Option {
	return func(c *config) { c.raced = append(c.raced, packages...) }
}

// Before makes Main call f before the machine starts, while the host's network is reachable. An
// error of f is only printed; the tests that depend on f notice what is missing.
func Before(f func() error) Option {
	return func(c *config) { c.before = append(c.before, f) }
}

// Main is the TestMain of a package: it runs the tests in a new machine, or in several (see
// Machines), and exits with their status.
//
// If no machine can be made (without root, in a container without permission, when fuzzing), the
// tests run without one. Tests that call New or Need then skip, or fail if Required.
func Main(m *testing.M, options ...Option) {
	if os.Getenv(stageEnv) != "" {
		os.Exit(runInside(m))
	}
	if !flag.Parsed() {
		flag.Parse() // testing.M.Run would do it later
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

// lanesEnv is "require" to fail tests that this host cannot run, or "skip" to skip every test that
// needs more than Go: a machine, or another program. Empty: tests that cannot run fail only in CI.
const lanesEnv = "NODEDNS_LANES"

// Required reports whether a test that cannot run is a failure.
func Required() bool {
	lanes := os.Getenv(lanesEnv)
	return lanes == "require" || lanes != "skip" && os.Getenv("CI") != ""
}

// Skip skips the test because this host lacks something; if Required, it fails the test.
func Skip(t testing.TB, format string, args ...any) {
	t.Helper()
	if Required() {
		t.Fatalf(format, args...)
	}
	t.Skipf(format, args...)
}

// NeedPrograms skips or fails the test unless these programs are in its PATH.
func NeedPrograms(t testing.TB, programs ...string) {
	t.Helper()
	if os.Getenv(lanesEnv) == "skip" {
		t.Skipf("needs %s (NODEDNS_LANES=skip)", programs)
	}
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			Skip(t, "needs %s: %v", p, err)
		}
	}
}

// Need skips or fails the test unless it runs in a machine with these programs in its PATH.
func Need(t testing.TB, programs ...string) {
	t.Helper()
	if os.Getenv(stageEnv) == "" {
		Skip(t, "needs a lab machine: %s", cmp.Or(os.Getenv(absentEnv), "lab.Main was not called by TestMain"))
	}
	NeedPrograms(t, programs...)
}

// Lab is the machine, reset for one test. Its methods fail the test on errors and are for the
// test's goroutine unless stated otherwise. Tests that use it cannot run in parallel, because a
// package has one machine.
type Lab struct {
	t     testing.TB
	procs []*Process
	files []*os.File // kept open until the test ends
}

// New resets the machine for this test: no processes but the test, no network but loopback, an
// empty /run, and /etc, /usr/sbin and /var as installed but without files of resolvers. Everything
// that the test leaves behind is removed at its end. If it fails, the output of its processes is
// logged.
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

// Overlap makes n parallel tests of a package run at a time instead of one per CPU, because they
// mostly wait. Call it in TestMain, before the tests run. -parallel on the command line wins.
func Overlap(n int) {
	flag.Parse()
	isSet := false
	flag.Visit(func(f *flag.Flag) { isSet = isSet || f.Name == "test.parallel" })
	if isSet {
		return
	}
	if err := flag.Set("test.parallel", strconv.Itoa(n)); err != nil {
		panic(err) // package testing defines the flag
	}
}
