package lab

import (
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// Path is the PATH of programs in the machine, as set by systemd.
const Path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Command is a program to start.
type Command struct {
	Argv []string  // program, by path or name, and its arguments
	Env  []string  // complete environment; nil means only PATH
	User uint32    // user and group id; 0 means root
	Caps []uintptr // capabilities that a user other than root keeps, like systemd's AmbientCapabilities=
}

// Process is a program running concurrently with the test. Its methods are safe for concurrent use.
type Process struct {
	name   string
	cmd    *exec.Cmd
	output *os.File
	done   chan struct{} // closed after Wait
}

// Start starts a program that ends no later than the test. Output returns what it prints.
func (l *Lab) Start(c Command) *Process {
	l.t.Helper()
	p, err := newProcess(c)
	if err != nil {
		l.t.Fatal(err)
	}
	l.files = append(l.files, p.output)
	if err := p.cmd.Start(); err != nil {
		l.t.Fatalf("starting %s: %v", p.name, err)
	}
	l.procs = append(l.procs, p)
	go p.wait()
	return p
}

// Beside starts a program outside of any machine. It ends no later than this process, however that
// ends. Output returns what it prints. The caller stops it.
func Beside(c Command) (*Process, error) {
	p, err := newProcess(c)
	if err != nil {
		return nil, err
	}
	if p.cmd.SysProcAttr == nil {
		p.cmd.SysProcAttr = new(syscall.SysProcAttr)
	}
	p.cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	started := make(chan error)
	go func() {
		// Pdeathsig is sent when the thread that started the child ends, not the process (prctl(2),
		// PR_SET_PDEATHSIG).
		runtime.LockOSThread()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			p.wait()
		}
	}()
	if err := <-started; err != nil {
		p.output.Close()
		return nil, fmt.Errorf("starting %s: %w", p.name, err)
	}
	return p, nil
}

func newProcess(c Command) (*Process, error) {
	f, err := unnamedFile()
	if err != nil {
		return nil, fmt.Errorf("keeping the output of %s: %w", c.Argv[0], err)
	}
	p := &Process{name: strings.Join(c.Argv, " "), output: f, done: make(chan struct{})}
	p.cmd = exec.Command(c.Argv[0], c.Argv[1:]...)
	p.cmd.Dir = "/"
	p.cmd.Stdout, p.cmd.Stderr = f, f
	if p.cmd.Env = c.Env; c.Env == nil {
		p.cmd.Env = []string{"PATH=" + Path}
	}
	if RaceEnabled {
		// Programs from BuildRace should end at once when they get a signal.
		p.cmd.Env = append(p.cmd.Env, "GORACE=atexit_sleep_ms=0")
	}
	if c.User != 0 {
		p.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: c.User, Gid: c.User}, AmbientCaps: c.Caps}
	}
	return p, nil
}

// unnamedFile returns an already deleted file, so that nothing needs to be cleaned up.
func unnamedFile() (*os.File, error) {
	f, err := os.CreateTemp("", "node-dns-lab-output")
	if err != nil {
		return nil, err
	}
	return f, os.Remove(f.Name())
}

func (p *Process) wait() {
	defer close(p.done)
	p.cmd.Wait()
}

// Output returns what the program and its children have printed so far.
func (p *Process) Output() string {
	// Not through the file's own offset, which the program uses for writing.
	data, err := io.ReadAll(io.NewSectionReader(p.output, 0, math.MaxInt64))
	if err != nil {
		return "(" + err.Error() + ")"
	}
	return string(data)
}

// PID returns the program's process id in the machine.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Running reports whether the program is still running.
func (p *Process) Running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// Signal sends a signal. If the program has ended, Signal does nothing.
func (p *Process) Signal(s syscall.Signal) { p.cmd.Process.Signal(s) }

// Stop ends the program with SIGTERM, or with SIGKILL after five seconds. It returns when the
// program has ended.
func (p *Process) Stop() {
	p.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(5 * time.Second):
		p.Kill()
	}
}

// Kill ends the program with SIGKILL and returns when it has ended.
func (p *Process) Kill() {
	p.Signal(syscall.SIGKILL)
	p.awaitExit()
}

func (p *Process) awaitExit() { <-p.done }

// dump logs the output of a failed test's programs.
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
