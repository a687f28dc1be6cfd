package lab

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// Namespace is a second network, at the other end of a wire.
type Namespace struct {
	Name string
	l    *Lab
}

// Namespace adds a network namespace (ip-netns(8)) with loopback up.
func (l *Lab) Namespace(name string) *Namespace {
	l.t.Helper()
	l.Run("ip", "netns", "add", name)
	n := &Namespace{Name: name, l: l}
	n.Run("ip", "link", "set", "lo", "up")
	n.Run("sh", "-c", "for f in all default; do echo 0 >/proc/sys/net/ipv6/conf/$f/accept_dad; done")
	return n
}

// Run runs a program in the namespace and returns its output.
func (n *Namespace) Run(argv ...string) string {
	n.l.t.Helper()
	return n.l.Run(n.argv(argv)...)
}

// Try is Run for commands that may fail.
func (n *Namespace) Try(argv ...string) (string, error) { return n.l.Try(n.argv(argv)...) }

// Start starts a program in the namespace.
func (n *Namespace) Start(argv ...string) *Process {
	n.l.t.Helper()
	return n.l.Start(Command{Argv: n.argv(argv)})
}

func (n *Namespace) argv(argv []string) []string {
	return append([]string{"ip", "netns", "exec", n.Name}, argv...)
}

// errEnded is the error for a function that did not return.
var errEnded = errors.New("the function called in a namespace ended its goroutine")

// Inside calls f in the namespace. Sockets that f opens stay there, even if others use them later.
// It returns an error if f could not be called or did not return: f must not fail the test
// (testing.T.FailNow).
func (n *Namespace) Inside(f func()) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked, so the thread ends with this goroutine
		err := errEnded
		defer func() { done <- err }()
		err = n.enter(f)
	}()
	return <-done
}

func (n *Namespace) enter(f func()) error {
	ns, err := os.Open("/run/netns/" + n.Name)
	if err != nil {
		return fmt.Errorf("finding a namespace: %w", err)
	}
	defer ns.Close()
	if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("entering namespace %s: %w", n.Name, err)
	}
	f()
	return nil
}
