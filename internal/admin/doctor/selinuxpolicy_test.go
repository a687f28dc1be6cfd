package doctor

import (
	"testing"

	"github.com/node-dns/node-dns/internal/test/lab"
)

func TestReadSELinuxConfig(t *testing.T) {
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
		want       SELinuxConfig
	}{
		{"RHEL's", rhel, SELinuxConfig{"enforcing", "targeted"}},
		{"with spaces, and without a last line end", "SELINUX= Permissive \n  SELINUXTYPE=mls", SELinuxConfig{"permissive", "mls"}},
		{"empty", "", SELinuxConfig{}},
	} {
		t.Run(row.name, func(t *testing.T) {
			if got := readSELinuxConfig(lab.Tree(t, map[string]string{"/etc/selinux/config": row.text})); got != row.want {
				t.Errorf("got %+v", got)
			}
		})
	}
	if got := readSELinuxConfig(t.TempDir()); got != (SELinuxConfig{}) {
		t.Errorf("without the file: %+v", got)
	}
}

func TestHasSELinux(t *testing.T) {
	for text, want := range map[string]bool{"nodev\tsysfs\nnodev\tselinuxfs\n\text4\n": true, "nodev\tsysfs\n": false} {
		if got := hasSELinux(lab.Tree(t, map[string]string{"/proc/filesystems": text})); got != want {
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
			if got := hasModule(lab.Tree(t, row.files), "targeted", "node_dns"); got != row.want {
				t.Errorf("got %v", got)
			}
		})
	}
}
