package daemon

import (
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/node-dns/node-dns/internal/admin/control"
)

// TestSELinuxStatus: the mode is the current one, the domain that of the start. On a host without
// SELinux, the AppArmor context is not shown.
func TestSELinuxStatus(t *testing.T) {
	t.Parallel()
	const mounts, enforce, context = "/proc/self/mounts", "/sys/fs/selinux/enforce", "/proc/self/attr/current"
	r := start(t, map[string]string{
		mounts: "selinuxfs /sys/fs/selinux selinuxfs rw 0 0\n", enforce: "1", context: "system_u:system_r:node_dns_t:s0\x00",
	})
	for _, row := range []struct {
		path, text string
		want       *control.SELinux
	}{
		{enforce, "1", &control.SELinux{Mode: "enforcing", Domain: "node_dns_t"}},
		{enforce, "0", &control.SELinux{Mode: "permissive", Domain: "node_dns_t"}},
	} {
		write(t, filepath.Join(r.root, row.path), row.text)
		if diff := cmp.Diff(row.want, r.status().SELinux); diff != "" {
			t.Errorf("with %s %q (-want +got):\n%s", row.path, row.text, diff)
		}
	}
	if got := start(t, map[string]string{mounts: "proc /proc proc rw 0 0\n", context: "unconfined\n"}).status().SELinux; got != nil {
		t.Errorf("without SELinux: %+v", got)
	}
}
