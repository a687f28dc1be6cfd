package hostdns

import (
	"os"
	"strings"
	"testing"

	"github.com/node-dns/node-dns/internal/nm"
)

// TestEvent covers NetworkManager's events on a node where node-dns is installed.
func TestEvent(t *testing.T) {
	const unit, runtime = "/usr/lib/systemd/system/node-dns.service", "/run/node-dns/ready"
	script := strings.Replace(oursText, Watermark, LegacyWatermark, 1)
	for _, test := range []struct {
		name  string
		files map[string]string
		want  string // resolv.conf; "" if nothing is changed
	}{
		{name: "installed, not in use", files: map[string]string{unit: "", "/etc/resolv.conf": generated}},
		{name: "not in use, no resolv.conf", files: map[string]string{unit: ""}},
		{name: "not in use, the script is in use", files: map[string]string{unit: "", "/etc/resolv.conf": script, "/etc/dnsmasq.d/origin-upstream-dns.conf": "server=10.0.0.2\n"}},
		{name: "not in use, an admin's unit", files: map[string]string{"/etc/systemd/system/node-dns.service": "", "/etc/resolv.conf": generated}},
		{
			name: "left behind", want: generated,
			files: map[string]string{
				unit: "", "/etc/resolv.conf": oursText, "/var/lib/node-dns/resolv.conf.orig": generated,
				"/run/NetworkManager/conf.d/90-node-dns.conf": Snippet,
			},
		},
		{name: "in use", files: map[string]string{unit: "", runtime: "", "/etc/resolv.conf": generated}, want: oursText},
		{name: "by hand, without a unit", files: map[string]string{"/etc/resolv.conf": generated}, want: oursText},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newTree(t, test.files)
			before := w.identities()
			if _, _, err := w.runner().Event(t.Context(), nm.Event{Interface: "eth0", Action: "up"}); err != nil {
				t.Fatal(err)
			}
			if test.want == "" {
				wantSame(t, "touched", before, w.identities())
				if _, err := os.Lstat(w.paths.Lock); err == nil || w.log.Len() > 0 {
					t.Errorf("the lock: %v, logged %s", err, &w.log)
				}
				return
			}
			if got := w.read("/etc/resolv.conf"); got != test.want {
				t.Errorf("resolv.conf is\n%s", got)
			}
			if _, left := w.files()["/run/NetworkManager/conf.d/90-node-dns.conf"]; left && test.want == generated {
				t.Error("the snippet remains")
			}
		})
	}
}
