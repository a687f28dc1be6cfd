package selinux

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// tree returns a new directory with these files.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for path, text := range files {
		at := filepath.Join(root, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestMode(t *testing.T) {
	const mounts, enforce = "/proc/self/mounts", "/sys/fs/selinux/enforce"
	const with = "sysfs /sys sysfs rw,seclabel 0 0\nselinuxfs /sys/fs/selinux selinuxfs rw,nosuid,noexec,relatime 0 0\n"
	for _, row := range []struct {
		name  string
		files map[string]string
		want  Mode
	}{
		{"no /proc", nil, Off},
		{"not mounted", map[string]string{mounts: "proc /proc proc rw 0 0\n"}, Off},
		{"mounted from a device of that name", map[string]string{mounts: "selinuxfs /mnt tmpfs rw 0 0\nx\n", "/mnt/enforce": "1"}, Off},
		{"enforcing", map[string]string{mounts: with, enforce: "1"}, Enforcing},
		{"permissive", map[string]string{mounts: with, enforce: "0"}, Permissive},
		{"may not be read", map[string]string{mounts: with}, On},
		{"RHEL 6's place", map[string]string{mounts: "none /selinux selinuxfs rw 0 0\n", "/selinux/enforce": "1\n"}, Enforcing},
	} {
		t.Run(row.name, func(t *testing.T) {
			if got := Find(tree(t, row.files)).Mode(); got != row.want {
				t.Errorf("got %q", got)
			}
		})
	}
}

func TestReadConfig(t *testing.T) {
	const rhel = `
# This file controls the state of SELinux on the system.
# SELINUX= can take one of these three values:
#     enforcing - SELinux security policy is enforced.
SELINUX=enforcing
# SELINUXTYPE= can take one of these three values:
SELINUXTYPE=targeted

`
	for _, row := range []struct {
		name, text string
		want       Config
	}{
		{"RHEL's", rhel, Config{"enforcing", "targeted"}},
		{"with spaces, and without a last line end", "SELINUX= Permissive \n  SELINUXTYPE=mls", Config{"permissive", "mls"}},
		{"empty", "", Config{}},
	} {
		t.Run(row.name, func(t *testing.T) {
			if got := ReadConfig(tree(t, map[string]string{"/etc/selinux/config": row.text})); got != row.want {
				t.Errorf("got %+v", got)
			}
		})
	}
	if got := ReadConfig(t.TempDir()); got != (Config{}) {
		t.Errorf("without the file: %+v", got)
	}
}

func TestIsInKernel(t *testing.T) {
	for text, want := range map[string]bool{"nodev\tsysfs\nnodev\tselinuxfs\n\text4\n": true, "nodev\tsysfs\n": false} {
		if got := IsInKernel(tree(t, map[string]string{"/proc/filesystems": text})); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}

func TestHasModule(t *testing.T) {
	const store = "/var/lib/selinux/targeted/active/modules/"
	for _, row := range []struct {
		name  string
		files map[string]string
		want  bool
	}{
		{"at the priority of packages", map[string]string{store + "200/node_dns/cil": ""}, true},
		{"at semodule's own", map[string]string{store + "400/node_dns/cil": "", store + "100/base/cil": ""}, true},
		{"in the image of rpm-ostree", map[string]string{"/etc/selinux/targeted/active/modules/200/node_dns/cil": "", store + "100/base/cil": ""}, true},
		{"another", map[string]string{store + "200/node_dns_more/cil": ""}, false},
		{"disabled", map[string]string{store + "200/node_dns/cil": "", store + "disabled/node_dns": ""}, false},
		{"of another policy", map[string]string{"/var/lib/selinux/mls/active/modules/200/node_dns/cil": ""}, false},
		{"none", nil, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			if got := HasModule(tree(t, row.files), "targeted", "node_dns"); got != row.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

func TestContexts(t *testing.T) {
	const context = "system_u:system_r:node_dns_t:s0"
	root := tree(t, map[string]string{"/proc/self/attr/current": context + "\x00", "/proc/42/attr/current": "unconfined\n"})
	if own, other, gone := OwnContext(root), ContextOf(root, 42), ContextOf(root, 43); own != context || other != "unconfined" || gone != "" {
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
		if got := TypeOf(context); got != want {
			t.Errorf("%q: %q", context, got)
		}
	}
}
