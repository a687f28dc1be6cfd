package procfs

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// SELinuxMode is the current mode of the kernel's SELinux (selinux(8)).
type SELinuxMode string

const (
	SELinuxOff        SELinuxMode = ""           // no policy is loaded: SELinux is disabled or not in this kernel
	SELinuxPermissive SELinuxMode = "permissive" // denials are logged, and the access is allowed
	SELinuxEnforcing  SELinuxMode = "enforcing"
	SELinuxOn         SELinuxMode = "on" // a policy is loaded; this process may not read the mode
)

// IsOn reports whether a policy is loaded.
func (m SELinuxMode) IsOn() bool { return m != SELinuxOff }

// SELinux is the SELinux of the running kernel. The zero value is off. SELinux can be turned on or
// off only at boot, so a process may keep the value.
type SELinux struct {
	enforce string // enforce file in selinuxfs; "" if off
}

// FindSELinux returns the SELinux of the running kernel. root is "/" except in tests. Like
// libselinux it looks for a mounted selinuxfs, which does not exist in kernels without SELinux.
func FindSELinux(root string) SELinux {
	mounts, _ := os.ReadFile(filepath.Join(root, "/proc/self/mounts")) // without /proc, it counts as off
	at := mountPoint(string(mounts))
	if at == "" {
		return SELinux{}
	}
	return SELinux{filepath.Join(root, at, "enforce")}
}

// Mode returns the current mode. setenforce(8) can change it at any time.
func (s SELinux) Mode() SELinuxMode {
	if s.enforce == "" {
		return SELinuxOff
	}
	enforce, err := os.ReadFile(s.enforce)
	switch {
	case err != nil:
		return SELinuxOn
	case string(bytes.TrimSpace(enforce)) == "1":
		return SELinuxEnforcing
	}
	return SELinuxPermissive
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

// OwnSELinuxContext returns the security context of this process, such as
// "system_u:system_r:node_dns_t:s0", or "" if it cannot be read. It is meaningful only while
// SELinux is on, because AppArmor uses the same file.
func OwnSELinuxContext(root string) string { return readContext(root, "self") }

// SELinuxContext returns the security context of another process.
func SELinuxContext(root string, pid int) string { return readContext(root, strconv.Itoa(pid)) }

func readContext(root, process string) string {
	text, err := os.ReadFile(filepath.Join(root, "/proc", process, "attr/current"))
	if err != nil {
		return ""
	}
	return strings.TrimRight(string(text), "\x00\n")
}

// SELinuxType returns the type of a context, the third of its four parts: the domain of a process,
// or the relevant part of a file's label. It returns "" for a string that is not a context.
func SELinuxType(context string) string {
	parts := strings.SplitN(strings.TrimRight(context, "\x00"), ":", 4)
	if len(parts) < 3 {
		return ""
	}
	return parts[2]
}
