package lab

import (
	"io"
	"math"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// Path is the PATH of the machine's programs, as systemd gives it.
const Path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Command is a program to start.
type Command struct {
	Argv []string  // the program, by path or by name, and its arguments
	Env  []string  // whole environment; nil: PATH alone
	User uint32    // user and group id to run as; 0: root
	Caps []uintptr // capabilities that a user other than root keeps, as systemd's AmbientCapabilities= gives them
}

// Process is a program that was started and runs beside the test. Its methods are safe for concurrent use.
type Process struct {
	name   string
	cmd    *exec.Cmd
	output *os.File
	done   chan struct{} // closed when it was waited for
}

// Start starts a program; it ends with the test at the latest. What it prints is kept for Output.
func (l *Lab) Start(c Command) *Process {
	l.t.Helper()
	f := l.unnamedFile()
	p := &Process{name: strings.Join(c.Argv, " "), output: f, done: make(chan struct{})}
	p.cmd = exec.Command(c.Argv[0], c.Argv[1:]...)
	p.cmd.Dir = "/"
	p.cmd.Stdout, p.cmd.Stderr = f, f
	if p.cmd.Env = c.Env; c.Env == nil {
		p.cmd.Env = []string{"PATH=" + Path}
	}
	if raceEnabled {
		// A program of BuildRace that is told to end does so at once.
		p.cmd.Env = append(p.cmd.Env, "GORACE=atexit_sleep_ms=0")
	}
	if c.User != 0 {
		p.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: c.User, Gid: c.User}, AmbientCaps: c.Caps}
	}
	if err := p.cmd.Start(); err != nil {
		l.t.Fatalf("starting %s: %v", p.name, err)
	}
	l.procs = append(l.procs, p)
	go func() {
		defer close(p.done)
		p.cmd.Wait()
	}()
	return p
}

// unnamedFile is kept open until the test ends, and has no name to be in the way of.
func (l *Lab) unnamedFile() *os.File {
	l.t.Helper()
	f, err := os.CreateTemp("", "node-dns-lab-output")
	if err != nil {
		l.t.Fatal(err)
	}
	l.files = append(l.files, f)
	if err := os.Remove(f.Name()); err != nil {
		l.t.Fatal(err)
	}
	return f
}

// Output is what the program, and what it started, printed so far.
func (p *Process) Output() string {
	// Not by the file's own offset, which the program writes at.
	data, err := io.ReadAll(io.NewSectionReader(p.output, 0, math.MaxInt64))
	if err != nil {
		return "(" + err.Error() + ")"
	}
	return string(data)
}

// PID is the program's process id in the machine.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Running reports whether the program has not ended.
func (p *Process) Running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// Signal sends a signal; to a program that ended it does nothing.
func (p *Process) Signal(s syscall.Signal) { p.cmd.Process.Signal(s) }

// Stop ends the program with SIGTERM, and with SIGKILL when it has not ended after five seconds; it returns when it has ended.
func (p *Process) Stop() {
	p.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(5 * time.Second):
		p.Kill()
	}
}

// Kill ends the program with SIGKILL, and returns when it has ended.
func (p *Process) Kill() {
	p.Signal(syscall.SIGKILL)
	p.awaitExit()
}

func (p *Process) awaitExit() { <-p.done }

// dump shows what a failed test's programs printed.
func (l *Lab) dump() {
	l.t.Helper()
	for _, p := range l.procs {
		out := p.Output()
		if len(out) > 16<<10 {
			out = "…" + out[len(out)-16<<10:]
		}
		l.t.Logf("---- %s (running: %v)\n%s", p.name, p.Running(), out)
	}
}
