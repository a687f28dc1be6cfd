package procfs

import (
	"testing"

	"github.com/node-dns/node-dns/internal/test/lab"
)

func TestSELinuxMode(t *testing.T) {
	const mounts, enforce = "/proc/self/mounts", "/sys/fs/selinux/enforce"
	const with = "sysfs /sys sysfs rw,seclabel 0 0\nselinuxfs /sys/fs/selinux selinuxfs rw,nosuid,noexec,relatime 0 0\n"
	for _, row := range []struct {
		name  string
		files map[string]string
		want  SELinuxMode
	}{
		{"no /proc", nil, SELinuxOff},
		{"not mounted", map[string]string{mounts: "proc /proc proc rw 0 0\n"}, SELinuxOff},
		{"mounted from a device of that name", map[string]string{mounts: "selinuxfs /mnt tmpfs rw 0 0\nx\n", "/mnt/enforce": "1"}, SELinuxOff},
		{"enforcing", map[string]string{mounts: with, enforce: "1"}, SELinuxEnforcing},
		{"permissive", map[string]string{mounts: with, enforce: "0"}, SELinuxPermissive},
		{"may not be read", map[string]string{mounts: with}, SELinuxOn},
		{"RHEL 6's place", map[string]string{mounts: "none /selinux selinuxfs rw 0 0\n", "/selinux/enforce": "1\n"}, SELinuxEnforcing},
	} {
		t.Run(row.name, func(t *testing.T) {
			if got := FindSELinux(lab.Tree(t, row.files)).Mode(); got != row.want {
				t.Errorf("got %q", got)
			}
		})
	}
}

func TestContexts(t *testing.T) {
	const context = "system_u:system_r:node_dns_t:s0"
	root := lab.Tree(t, map[string]string{"/proc/self/attr/current": context + "\x00", "/proc/42/attr/current": "unconfined\n"})
	if own, other, gone := OwnSELinuxContext(root), SELinuxContext(root, 42), SELinuxContext(root, 43); own != context || other != "unconfined" || gone != "" {
		t.Errorf("%q, %q, %q", own, other, gone)
	}
	for context, want := range map[string]string{
		context:                               "node_dns_t",
		"system_u:object_r:net_conf_t:s0\x00": "net_conf_t",
		"unconfined_u:unconfined_r:unconfined_t:s0-s0:c0.c1023": "unconfined_t",
		"a:b:c":        "c", // a policy without MLS
		"unconfined\n": "",
		"":             "",
	} {
		if got := SELinuxType(context); got != want {
			t.Errorf("%q: %q", context, got)
		}
	}
}
