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

// cgroup is the directory of a control group with the CPU controller, of either version of
// cgroups(7). "" is the bench's own group.
type cgroup string

// cgroupRoots are where the CPU controller is mounted: version 1 under two names, and version 2.
var cgroupRoots = []string{"/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup"}

// newCgroup makes a group whose processes may use so many cores together; 0: all. It changes
// nothing outside of the group: on a machine that does not hand the controller down it fails.
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

// quotaPeriod is the kernel's default: a group that has used up its quota waits for the next period.
const quotaPeriod = 100 * time.Millisecond

// limit sets the quota, and fails if the group does not have the controller.
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

// enter is the command that runs a program in the group.
func (g cgroup) enter(command []string) []string {
	if g == "" {
		return command
	}
	return slices.Concat([]string{"/bin/sh", "-c", `echo $$ >"$0/cgroup.procs" && exec "$@"`, string(g)}, command)
}

// remove removes the group. The kernel may take a moment to forget processes that have ended.
func (g cgroup) remove() {
	for range 50 {
		if g == "" || unix.Rmdir(string(g)) != unix.EBUSY {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}
