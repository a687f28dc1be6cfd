package lab

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// makeMachine turns the namespaces of this process into a machine.
func makeMachine() error {
	if os.Getpid() != 1 {
		return fmt.Errorf("not in a process namespace of its own (pid %d)", os.Getpid())
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("making the mounts private: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return fmt.Errorf("mounting /proc: %w", err)
	}
	// Read-only, because NetworkManager then assumes that there is no udev to wait for and manages
	// a veth at once.
	if err := unix.Mount("sysfs", "/sys", "sysfs", unix.MS_RDONLY, ""); err != nil {
		return fmt.Errorf("mounting /sys: %w", err)
	}
	if err := unix.Sethostname([]byte("node.lab")); err != nil {
		return fmt.Errorf("setting the host name: %w", err)
	}
	if err := mountFiles(); err != nil {
		return err
	}
	return resetNetwork()
}

// overlays are the directories whose changes stay in the machine; missing ones are skipped. They
// exclude most of /usr, because an overlay hides what is mounted below it, such as a Go toolchain.
var overlays = []string{"/etc", "/usr/lib/NetworkManager", "/usr/sbin", "/var"}

// source identifies our mounts in /proc/self/mountinfo.
const source = "node-dns-lab"

// mountFiles mounts a new, empty /run and new layers over overlays, in place of those of the
// previous test. Files that a program still has open do not keep the old mounts: they are detached.
func mountFiles() error {
	if err := unmountFiles(); err != nil {
		return err
	}
	if err := mountTmpfs("/run"); err != nil {
		return err
	}
	for _, dir := range overlays {
		if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		upper, work := "/run"+dir+"/upper", "/run"+dir+"/work"
		for _, d := range []string{upper, work} {
			if err := os.MkdirAll(d, 0o755); err != nil {
				return fmt.Errorf("making an overlay's layer: %w", err)
			}
		}
		options := "lowerdir=" + dir + ",upperdir=" + upper + ",workdir=" + work
		if err := unix.Mount(source, dir, "overlay", 0, options); err != nil {
			return fmt.Errorf("mounting an overlay on %s: %w", dir, err)
		}
	}
	// Temporary files that programs outside create there, such as rpmbuild's, would show through an
	// overlay.
	if err := mountTmpfs("/var/tmp"); err != nil {
		return err
	}
	return mountTmpfs("/run") // hides the layers, which programs that walk /run must not see
}

func mountTmpfs(dir string) error {
	if err := unix.Mount(source, dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755"); err != nil {
		return fmt.Errorf("mounting %s: %w", dir, err)
	}
	return nil
}

// unmountFiles removes the mounts of mountFiles, and whatever a test mounted on them. Overlays must
// not pile up: the kernel stacks at most two (FILESYSTEM_MAX_STACK_DEPTH), and in a container the
// root is one already.
func unmountFiles() error {
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return fmt.Errorf("reading the mount table: %w", err)
	}
	// Last mounted first: it may lie on another one.
	for _, line := range slices.Backward(strings.Split(strings.TrimSpace(string(table)), "\n")) {
		// proc_pid_mountinfo(5): the mount point is the fifth field; TYPE SOURCE OPTIONS are the
		// last.
		f := strings.Fields(line)
		if f[len(f)-2] != source {
			continue
		}
		if err := unix.Unmount(f[4], unix.MNT_DETACH); err != nil {
			return fmt.Errorf("unmounting %s: %w", f[4], err)
		}
	}
	return nil
}

// resolverFiles are files that an installed machine may have, but that a test must start without.
var resolverFiles = []string{
	"/etc/resolv.conf", "/etc/dnsmasq.d", "/etc/origin", "/etc/node-dns", "/var/lib/node-dns", "/var/lib/kubelet",
	"/etc/NetworkManager/dispatcher.d/01-ifupdown", "/etc/NetworkManager/NetworkManager.conf", "/etc/NetworkManager/conf.d",
	"/var/lib/NetworkManager", hooks + "/99-origin-dns",
}

func removeResolverFiles() error {
	for _, path := range resolverFiles {
		if err := os.RemoveAll(path); err != nil {
			return fmt.Errorf("clearing the machine's files: %w", err)
		}
	}
	return nil
}
