// Package selinux reads the SELinux state of this host: the mode, the contexts of processes, and
// denials in audit records. It only reads files of the kernel and of the policy (selinux(8)), and
// changes nothing.
//
// Package atomicfile keeps the labels of files that it replaces.
package selinux

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Mode is the current mode of the kernel.
type Mode string

const (
	Off        Mode = ""           // no policy is loaded: SELinux is disabled or not in this kernel
	Permissive Mode = "permissive" // denials are logged, and the access is allowed
	Enforcing  Mode = "enforcing"
	On         Mode = "on" // a policy is loaded; this process may not read the mode
)

// IsOn reports whether a policy is loaded.
func (m Mode) IsOn() bool { return m != Off }

// Kernel is the SELinux of the running kernel. The zero value is off. SELinux can be turned on or
// off only at boot, so a process may keep the value.
type Kernel struct {
	enforce string // enforce file in selinuxfs; "" if off
}

// Find returns the SELinux of the running kernel. root is "/" except in tests. Like libselinux it
// looks for a mounted selinuxfs, which does not exist in kernels without SELinux.
func Find(root string) Kernel {
	mounts, err := os.ReadFile(filepath.Join(root, "/proc/self/mounts"))
	if err != nil {
		return Kernel{}
	}
	at := mountPoint(string(mounts))
	if at == "" {
		return Kernel{}
	}
	return Kernel{filepath.Join(root, at, "enforce")}
}

// Mode returns the current mode. setenforce(8) can change it at any time.
func (k Kernel) Mode() Mode {
	if k.enforce == "" {
		return Off
	}
	enforce, err := os.ReadFile(k.enforce)
	switch {
	case err != nil:
		return On
	case string(bytes.TrimSpace(enforce)) == "1":
		return Enforcing
	}
	return Permissive
}

// mountPoint returns the mount point of selinuxfs in the text of /proc/self/mounts (proc(5)), or ""
// if it is not mounted.
func mountPoint(mounts string) string {
	for line := range strings.Lines(mounts) {
		if fields := strings.Fields(line); len(fields) > 2 && fields[2] == "selinuxfs" {
			return fields[1]
		}
	}
	return ""
}

// Config is the content of /etc/selinux/config, which takes effect at the next boot.
type Config struct {
	Mode   string // SELINUX=; "" without the file
	Policy string // SELINUXTYPE=, such as "targeted"
}

// ReadConfig reads the configuration. If the file is missing, it returns an empty Config.
func ReadConfig(root string) Config {
	text, err := os.ReadFile(filepath.Join(root, "/etc/selinux/config"))
	if err != nil {
		return Config{}
	}
	var c Config
	for line := range strings.Lines(string(text)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		switch strings.TrimSpace(key) {
		case "SELINUX":
			c.Mode = strings.ToLower(strings.TrimSpace(value))
		case "SELINUXTYPE":
			c.Policy = strings.TrimSpace(value)
		}
	}
	return c
}

// IsInKernel reports whether the running kernel has SELinux and its command line does not disable
// it (selinux=0).
func IsInKernel(root string) bool {
	text, err := os.ReadFile(filepath.Join(root, "/proc/filesystems"))
	return err == nil && strings.Contains(string(text), "\tselinuxfs\n")
}

// stores lists the directories where libsemanage keeps modules (store-root in semanage.conf(5)).
// rpm-ostree moves the store to /etc to make it part of the image (coreos/rpm-ostree#1105).
var stores = []string{"/var/lib/selinux", "/etc/selinux"}

// HasModule reports whether a policy module is installed and enabled at any priority (semodule(8)).
// Only root can see that.
func HasModule(root string, policy, module string) bool {
	for _, store := range stores {
		modules := filepath.Join(root, store, policy, "active/modules")
		found, err := filepath.Glob(filepath.Join(modules, "[0-9]*", module))
		_, disabled := os.Stat(filepath.Join(modules, "disabled", module))
		if err == nil && len(found) > 0 && disabled != nil {
			return true
		}
	}
	return false
}

// OwnContext returns the security context of this process, such as
// "system_u:system_r:node_dns_t:s0", or "" if it cannot be read. It is meaningful only while
// SELinux is on, because AppArmor uses the same file.
func OwnContext(root string) string { return readContext(root, "self") }

// ContextOf returns the security context of another process.
func ContextOf(root string, pid int) string { return readContext(root, strconv.Itoa(pid)) }

func readContext(root, process string) string {
	text, err := os.ReadFile(filepath.Join(root, "/proc", process, "attr/current"))
	if err != nil {
		return ""
	}
	return strings.TrimRight(string(text), "\x00\n")
}

// TypeOf returns the type of a context, the third of its four parts: the domain of a process, or
// the relevant part of a file's label. It returns "" for a string that is not a context.
func TypeOf(context string) string {
	parts := strings.SplitN(strings.TrimRight(context, "\x00"), ":", 4)
	if len(parts) < 3 {
		return ""
	}
	return parts[2]
}
