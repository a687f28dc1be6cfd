package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// profile has perf(1) note where the server spends its time until done, in dir/NAME.perf. It costs what it costs: a profile is not a
// measurement. Without a dir it does nothing.
func profile(dir, name string, pids []int) (done func() error, err error) {
	if dir == "" {
		return func() error { return nil }, nil
	}
	perf, err := exec.LookPath("perf")
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	all := strings.Trim(strings.Join(strings.Fields(fmt.Sprint(pids)), ","), "[]")
	c, err := start(dir, []string{perf, "record", "-q", "-g", "-F", "997", "-o", filepath.Join(dir, name+".perf"), "-p", all})
	if err != nil {
		return nil, err
	}
	return func() error {
		err := c.cmd.Process.Signal(syscall.SIGINT) // it writes what it has
		<-c.done
		c.output.Close()
		return errors.Join(err, os.Remove(c.output.Name()))
	}, nil
}
