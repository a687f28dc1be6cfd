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

// profile records with perf(1) where the server spends its time, from now until done is called, in
// dir/NAME.perf. Profiling costs time, so a profiled run is not a valid measurement. It does
// nothing if dir is "".
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
		err := c.cmd.Process.Signal(syscall.SIGINT) // perf then writes its data
		<-c.done
		c.output.Close()
		return errors.Join(err, os.Remove(c.output.Name()))
	}, nil
}
