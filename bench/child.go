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

// child is a program that this one runs, and that ends no later than this one.
type child struct {
	cmd    *exec.Cmd
	output *os.File      // its output
	done   chan struct{} // closed when the program was waited for; cmd.ProcessState is then set
}

// start starts a program in dir, with its output in a file there.
func start(dir string, argv []string) (*child, error) {
	output, err := os.CreateTemp(dir, filepath.Base(argv[0])+"-*.log")
	if err != nil {
		return nil, err
	}
	c := &child{cmd: exec.Command(argv[0], argv[1:]...), output: output, done: make(chan struct{})}
	c.cmd.Dir = dir
	c.cmd.Stdout, c.cmd.Stderr = output, output
	c.cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/", "SSL_CERT_FILE=" + filepath.Join(dir, "ca.pem")}
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // Pdeathsig is sent when the thread that started the child ends (prctl(2))
		err := c.cmd.Start()
		started <- err
		if err == nil {
			c.cmd.Wait() // ProcessState has the result
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

// running reports whether the program is still running.
func (c *child) running() bool {
	select {
	case <-c.done:
		return false
	default:
		return true
	}
}

// wait waits until the program ends. After the limit it kills the program and returns an error, as
// for a failure of the program.
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

// stop ends the program and closes its output.
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

// text returns the output so far.
func (c *child) text() string {
	// The reader is independent of the file offset of the writer.
	data, err := io.ReadAll(io.NewSectionReader(c.output, 0, math.MaxInt64))
	if err != nil {
		return err.Error()
	}
	return string(data)
}

func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return text[strings.LastIndexByte(text, '\n')+1:]
}
