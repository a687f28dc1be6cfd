package main

import (
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// child is a program that runs beside this one, and ends with it at the latest.
type child struct {
	cmd    *exec.Cmd
	output *os.File      // what it prints
	done   chan struct{} // closed when it was waited for; cmd.ProcessState is set then
}

// start starts a program that prints into a file in dir, which is also where it runs.
func start(dir string, argv []string) (*child, error) {
	output, err := os.CreateTemp(dir, filepath.Base(argv[0])+"-*.log")
	if err != nil {
		return nil, err
	}
	c := &child{cmd: exec.Command(argv[0], argv[1:]...), output: output, done: make(chan struct{})}
	c.cmd.Dir = dir
	c.cmd.Stdout, c.cmd.Stderr = output, output
	c.cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/"}
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // Pdeathsig is sent when the thread ends that started the child (prctl(2))
		err := c.cmd.Start()
		started <- err
		if err == nil {
			c.cmd.Wait() // its ProcessState says how it ended
			close(c.done)
		}
	}()
	if err := <-started; err != nil {
		output.Close()
		return nil, fmt.Errorf("starting %s: %w", argv[0], err)
	}
	return c, nil
}

func (c *child) pid() int { return c.cmd.Process.Pid }

// running reports whether it has not ended.
func (c *child) running() bool {
	select {
	case <-c.done:
		return false
	default:
		return true
	}
}

// wait waits until it ends by itself; after the limit it is killed, which is an error as its own failure is.
func (c *child) wait(limit time.Duration) error {
	select {
	case <-c.done:
	case <-time.After(limit):
		c.cmd.Process.Kill()
		<-c.done
		return fmt.Errorf("%s did not end within %v", c.cmd.Path, limit)
	}
	if !c.cmd.ProcessState.Success() {
		return fmt.Errorf("%s: %v: %s", c.cmd.Path, c.cmd.ProcessState, lastLine(c.text()))
	}
	return nil
}

// stop ends it, and closes its output.
func (c *child) stop() {
	c.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-c.done:
	case <-time.After(5 * time.Second):
		c.cmd.Process.Kill()
		<-c.done
	}
	c.output.Close()
}

// text is what it printed so far.
func (c *child) text() string {
	data, err := io.ReadAll(io.NewSectionReader(c.output, 0, math.MaxInt64)) // not from where it writes
	if err != nil {
		return err.Error()
	}
	return string(data)
}

func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return text[strings.LastIndexByte(text, '\n')+1:]
}
