package view

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/resolvconf"
)

// TestHear proves that known settings of the running kubelet win, and that those from the file that
// we know produce no note.
func TestHear(t *testing.T) {
	const (
		ours   = "/var/lib/kubelet/config.yaml"
		partly = "the configuration of the kubelet"
	)
	addr := netip.MustParseAddr("10.0.0.6")
	for _, row := range []struct {
		name  string
		told  *control.KubeletTold
		ours  string
		dns   string
		noDNS bool
		notes []string // beginnings of the notes
	}{
		{"no kubelet", nil, ours, "10.0.0.5", false, nil},
		{"not known", &control.KubeletTold{PID: 7}, ours, "10.0.0.5", false, nil},
		{"the file that we know", &control.KubeletTold{DNS: []netip.Addr{addr}, DNSSource: "clusterDNS " + ours + ":7"}, ours, "10.0.0.6", false, nil},
		{"a file whose path starts the same", &control.KubeletTold{DNS: []netip.Addr{addr}, DNSSource: "clusterDNS " + ours + ".d/a.conf:7"}, ours, "10.0.0.6", false, []string{"its nameservers are set by clusterDNS " + ours + ".d/a.conf:7"}},
		{"another file", &control.KubeletTold{DNS: []netip.Addr{addr}, DNSSource: "clusterDNS /etc/k.yaml:7"}, ours, "10.0.0.6", false, []string{"its nameservers are set by clusterDNS /etc/k.yaml:7"}},
		{"no file of ours", &control.KubeletTold{DNS: []netip.Addr{addr}, DNSSource: "clusterDNS /etc/k.yaml:7"}, "", "10.0.0.6", false, []string{"its nameservers are set by clusterDNS /etc/k.yaml:7"}},
		{"set nowhere", &control.KubeletTold{DNSSource: "default", DomainSource: "default"}, ours, "", true, []string{"the kubelet has no clusterDNS", "the kubelet has no clusterDomain"}},
		{"readable only by node-dns", &control.KubeletTold{Problems: []control.KubeletProblem{{Text: ours + ": permission denied", Denied: ours}}}, ours, "10.0.0.5", false, nil},
		{"another file is unreadable", &control.KubeletTold{PID: 7, Problems: []control.KubeletProblem{{Text: "/etc/k.yaml: permission denied", Denied: "/etc/k.yaml"}}}, ours, "10.0.0.5", false, []string{"the configuration of the kubelet (pid 7) is only partly known: /etc/k.yaml: permission denied"}},
		{"more problems than a client may report", &control.KubeletTold{Problems: make([]control.KubeletProblem, 9)}, ours, "10.0.0.5", false, []string{partly, partly, partly, partly}},
	} {
		t.Run(row.name, func(t *testing.T) {
			k := kubelet{Kubelet: resolvconf.Kubelet{DNS: []netip.Addr{netip.MustParseAddr("10.0.0.5")}}}
			k.applyRunning(row.told, row.ours)
			if got := strings.Trim(fmt.Sprint(k.DNS), "[]"); got != row.dns || k.noDNS != row.noDNS {
				t.Errorf("got nameservers %s, none: %t", got, k.noDNS)
			}
			if len(k.notes) != len(row.notes) {
				t.Fatalf("got %q", k.notes)
			}
			for i, want := range row.notes {
				if !strings.HasPrefix(k.notes[i], want) {
					t.Errorf("got %q, want %q", k.notes[i], want)
				}
			}
		})
	}
}
