package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// cgroup is the directory of a control group with the CPU controller, in cgroups(7) version 1 or 2.
// "" is the bench's own group.
type cgroup string

// cgroupRoots are the mount points of the CPU controller: two names for version 1, and version 2.
var cgroupRoots = []string{"/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup"}

// newCgroup creates a group whose processes may together use the given number of cores; 0 means
// all. It changes nothing outside the group, so it fails on a machine that does not delegate the
// controller.
func newCgroup(cores float64) (cgroup, error) {
	var errs []error
	for _, root := range cgroupRoots {
		dir, err := os.MkdirTemp(root, "node-dns-bench-")
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			g := cgroup(dir)
			if err = g.limit(cores); err == nil {
				return g, nil
			}
			g.remove()
		}
		errs = append(errs, err)
	}
	return "", fmt.Errorf("making a control group with the CPU controller: %w", errors.Join(errs...))
}

// quotaPeriod is the kernel's default. A group that has used its quota waits for the next period.
const quotaPeriod = 100 * time.Millisecond

// limit sets the quota. It fails if the group does not have the controller.
func (g cgroup) limit(cores float64) error {
	period := quotaPeriod.Microseconds()
	quota := int64(cores * float64(period))
	file, value := "cpu.max", fmt.Sprintf("%d %d", quota, period)
	if _, err := os.Stat(filepath.Join(string(g), file)); err != nil {
		file, value = "cpu.cfs_quota_us", fmt.Sprint(quota)
	}
	if cores == 0 {
		_, err := os.Stat(filepath.Join(string(g), file))
		return err
	}
	f, err := os.OpenFile(filepath.Join(string(g), file), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}

// enter returns the command that runs a program in the group.
func (g cgroup) enter(command []string) []string {
	if g == "" {
		return command
	}
	return slices.Concat([]string{"/bin/sh", "-c", `echo $$ >"$0/cgroup.procs" && exec "$@"`, string(g)}, command)
}

// remove removes the group. The kernel may take a moment to release ended processes.
func (g cgroup) remove() {
	for range 50 {
		if g == "" || unix.Rmdir(string(g)) != unix.EBUSY {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}
