package lab

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// mount puts an empty layer over the root of the machine and adapts its files.
func (c *Container) mount() error {
	lower := os.Getenv(rootEnv)
	upper, work, merged := filepath.Join(c.dir, "upper"), filepath.Join(c.dir, "work"), filepath.Join(c.dir, "root")
	for _, dir := range []string{upper, work, merged} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("making its layers: %w", err)
		}
	}
	// This shows only the host's root file system: the overlay hides everything mounted below it,
	// especially the Lab's own layers.
	if err := unix.Mount(source, merged, "overlay", 0, "lowerdir="+lower+",upperdir="+upper+",workdir="+work); err != nil {
		return fmt.Errorf("mounting its root: %w", err)
	}
	c.root = merged
	if err := c.removeInstalled(); err != nil {
		return fmt.Errorf("clearing its files: %w", err)
	}
	return c.configure()
}

// removeInstalled removes the configuration of the host's admin and packages, so that only
// systemd's own units start.
func (c *Container) removeInstalled() error {
	gone := slices.Concat(resolverFiles, []string{
		"/etc/fstab", "/var/log/journal", "/etc/sysctl.d", "/etc/NetworkManager/system-connections", "/etc/NetworkManager/dispatcher.d",
		"/etc/cni", "/etc/resolvconf", "/usr/sbin/policy-rc.d", // it keeps package scripts from starting units
	})
	for _, pattern := range []string{"/etc/systemd/system/*.wants", "/etc/systemd/system/*.requires", "/etc/systemd/system/*.d"} {
		paths, err := filepath.Glob(c.root + pattern)
		if err != nil {
			return err
		}
		for _, path := range paths {
			gone = append(gone, path[len(c.root):])
		}
	}
	for _, path := range gone {
		if err := os.RemoveAll(c.root + path); err != nil {
			return err
		}
	}
	for _, dir := range []string{"/var/log/journal", "/etc/NetworkManager/system-connections", "/etc/NetworkManager/dispatcher.d"} {
		if err := os.MkdirAll(c.root+dir, 0o755); err != nil {
			return err
		}
	}
	return nil
}

// masked are units that are started automatically and that a test machine should not run: they take
// time, write resolv.conf, or use port 53.
var masked = []string{
	"getty.target", "timers.target", "remote-fs.target", "systemd-logind.service", "systemd-user-sessions.service",
	"systemd-networkd.service", "systemd-networkd.socket", "systemd-resolved.service", "dnsmasq.service", "firewalld.service",
}

// machineID is an arbitrary valid machine ID (machine-id(5)). Without one, systemd enables all
// units, as at a first boot.
const machineID = "0123456789abcdef0123456789abcdef\n"

// containerNetworkManager is the installed configuration, but without automatic connections and
// connectivity checks.
const containerNetworkManager = `[main]
plugins=keyfile
no-auto-default=*

[connectivity]
enabled=false
`

// journalConfig keeps the complete journal across reboots.
const journalConfig = `[Journal]
Storage=persistent
RateLimitIntervalSec=0
`

func (c *Container) configure() error {
	files := map[string]string{
		"/etc/fstab": "", "/etc/machine-id": machineID, "/etc/hostname": c.name + "\n",
		"/etc/NetworkManager/NetworkManager.conf": containerNetworkManager, "/etc/systemd/journald.conf.d/lab.conf": journalConfig,
		// Duplicate address detection takes a second, and is pointless on these links.
		"/etc/sysctl.d/lab.conf": "net.ipv6.conf.all.accept_dad = 0\nnet.ipv6.conf.default.accept_dad = 0\n",
	}
	for path, text := range files {
		if err := os.MkdirAll(filepath.Dir(c.root+path), 0o755); err != nil {
			return err
		}
		os.Remove(c.root + path) // may be a symlink
		if err := os.WriteFile(c.root+path, []byte(text), 0o644); err != nil {
			return err
		}
	}
	units := c.root + "/etc/systemd/system/"
	links := map[string]string{"dbus-org.freedesktop.nm-dispatcher.service": c.unit("NetworkManager-dispatcher.service")}
	for _, name := range masked {
		links[name] = "/dev/null"
	}
	for name, target := range links {
		if err := os.Remove(units + name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := os.Symlink(target, units+name); err != nil {
			return err
		}
	}
	return nil
}

// unit returns the path where packages of the container's distribution install a unit.
func (c *Container) unit(name string) string {
	for _, dir := range []string{"/usr/lib/systemd/system/", "/lib/systemd/system/"} {
		if _, err := os.Stat(c.root + dir + name); err == nil {
			return dir + name
		}
	}
	return "/usr/lib/systemd/system/" + name
}
