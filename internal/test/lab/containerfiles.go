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

// mount lays an empty layer over the root that the machine is made of, and changes in it what must not be as it is there.
func (c *Container) mount() error {
	lower := os.Getenv(rootEnv)
	upper, work, merged := filepath.Join(c.dir, "upper"), filepath.Join(c.dir, "work"), filepath.Join(c.dir, "root")
	for _, dir := range []string{upper, work, merged} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("making its layers: %w", err)
		}
	}
	// Of the host's root only: what is mounted below it, the Lab's own layers above all, an overlay does not show.
	if err := unix.Mount(source, merged, "overlay", 0, "lowerdir="+lower+",upperdir="+upper+",workdir="+work); err != nil {
		return fmt.Errorf("mounting its root: %w", err)
	}
	c.root = merged
	if err := c.removeInstalled(); err != nil {
		return fmt.Errorf("clearing its files: %w", err)
	}
	return c.configure()
}

// removeInstalled takes away what the host's admin, or its packages, have set up: nothing starts but what systemd itself starts.
func (c *Container) removeInstalled() error {
	gone := slices.Concat(resolverFiles, []string{
		"/etc/fstab", "/var/log/journal", "/etc/sysctl.d", "/etc/NetworkManager/system-connections", "/etc/NetworkManager/dispatcher.d",
		"/etc/cni", "/etc/resolvconf", "/usr/sbin/policy-rc.d", // which keeps the scripts of packages from starting units
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

// masked are units that something pulls in by itself, and that a machine for tests does better without: they take time, write to
// resolv.conf, or take port 53.
var masked = []string{
	"getty.target", "timers.target", "remote-fs.target", "systemd-logind.service", "systemd-user-sessions.service",
	"systemd-networkd.service", "systemd-networkd.socket", "systemd-resolved.service", "dnsmasq.service", "firewalld.service",
}

// machineID is any, of the right form (machine-id(5)). One that is there keeps systemd from enabling everything, as it does at a first boot.
const machineID = "0123456789abcdef0123456789abcdef\n"

// containerNetworkManager is NetworkManager as installed, but that it brings no link up unasked and does not ask the Internet.
const containerNetworkManager = `[main]
plugins=keyfile
no-auto-default=*

[connectivity]
enabled=false
`

// journalConfig keeps the journal over a reboot, all of it.
const journalConfig = `[Journal]
Storage=persistent
RateLimitIntervalSec=0
`

func (c *Container) configure() error {
	files := map[string]string{
		"/etc/fstab": "", "/etc/machine-id": machineID, "/etc/hostname": c.name + "\n",
		"/etc/NetworkManager/NetworkManager.conf": containerNetworkManager, "/etc/systemd/journald.conf.d/lab.conf": journalConfig,
		// Duplicate address detection takes a second on a link where nobody can have the address.
		"/etc/sysctl.d/lab.conf": "net.ipv6.conf.all.accept_dad = 0\nnet.ipv6.conf.default.accept_dad = 0\n",
	}
	for path, text := range files {
		if err := os.MkdirAll(filepath.Dir(c.root+path), 0o755); err != nil {
			return err
		}
		os.Remove(c.root + path) // it may be a link
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

// unit is where a package of the container's distribution puts a unit.
func (c *Container) unit(name string) string {
	for _, dir := range []string{"/usr/lib/systemd/system/", "/lib/systemd/system/"} {
		if _, err := os.Stat(c.root + dir + name); err == nil {
			return dir + name
		}
	}
	return "/usr/lib/systemd/system/" + name
}
