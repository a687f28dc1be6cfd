package lab

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	cgroupRoot   = "/sys/fs/cgroup"
	cgroupPrefix = "node-dns-lab-"
	// cgroupStale is the age from which an empty group is stale: it belongs to a killed test
	// binary.
	cgroupStale = time.Minute
)

// makeCgroup makes a control group for the container, below which its systemd makes its own. It
// uses only the unified hierarchy (cgroups(7)), which every current kernel has, whatever the host
// uses.
func (c *Container) makeCgroup() error {
	var have unix.Statfs_t
	if err := unix.Statfs(cgroupRoot, &have); err != nil {
		return fmt.Errorf("inspecting %s: %w", cgroupRoot, err)
	}
	if have.Type != unix.CGROUP2_SUPER_MAGIC {
		if err := unix.Mount(source, cgroupRoot, "cgroup2", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
			return fmt.Errorf("mounting %s: %w", cgroupRoot, err)
		}
	}
	sweepCgroups()
	path, err := os.MkdirTemp(cgroupRoot, cgroupPrefix)
	if err != nil {
		return err
	}
	c.cgroup = path
	return nil
}

// sweepCgroups removes control groups that killed tests left behind.
func sweepCgroups() {
	groups, _ := filepath.Glob(filepath.Join(cgroupRoot, cgroupPrefix+"*"))
	for _, path := range groups {
		info, err := os.Stat(path)
		events, eventsErr := os.ReadFile(filepath.Join(path, "cgroup.events"))
		if err == nil && eventsErr == nil && time.Since(info.ModTime()) > cgroupStale && strings.Contains(string(events), "populated 0") {
			removeCgroup(path) // another process may be faster
		}
	}
}

// removeCgroup removes a control group and its descendants, deepest first. Their last processes may
// need a moment to exit.
func removeCgroup(path string) error {
	var err error
	Poll(5*time.Second, func() bool {
		err = removeCgroupNow(path)
		return err == nil
	})
	return err
}

func removeCgroupNow(path string) error {
	entries, err := os.ReadDir(path)
	if err != nil {
		return notGone(err)
	}
	for _, e := range entries {
		if e.IsDir() {
			if err := removeCgroupNow(filepath.Join(path, e.Name())); err != nil {
				return err
			}
		}
	}
	return notGone(unix.Rmdir(path))
}

func notGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
