package netns

import (
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"github.com/node-dns/node-dns/internal/admin/doctor"
	"github.com/node-dns/node-dns/internal/test/lab"
)

// inputFilter returns the finding of node-dns doctor about input filters.
func (n *podNode) inputFilter(t *testing.T) doctor.Finding {
	t.Helper()
	r := diagnose(t, n.l)
	i := slices.IndexFunc(r.Findings, func(f doctor.Finding) bool { return f.Check == "input-filter" })
	if i < 0 {
		t.Fatalf("no finding about input filters: %+v", r)
	}
	return r.Findings[i]
}

// answers reports whether the pod gets an answer over the protocol, "udp" or "tcp".
func (n *podNode) answers(protocol string) bool {
	out, err := n.pod.Try("dig", "+"+map[string]string{"udp": "notcp", "tcp": "tcp"}[protocol], "+tries=2", "+time=3", "+short", "@"+bridgeIP, "www.example.com.")
	return err == nil && strings.Contains(out, "192.0.2.80")
}

// TestInputFilter: a filter blocks a pod's queries. node-dns doctor names the filter and the
// interface. After its suggested command the pod gets an answer, and doctor reports no problem.
func TestInputFilter(t *testing.T) {
	lab.Need(t, "firewalld", "nft", "iptables", "dig")
	for _, row := range []struct {
		name  string
		apply func(l *lab.Lab)
		drops []string // protocols
		says  string
	}{
		{"firewalld", func(l *lab.Lab) { l.Bus(); l.Firewalld() }, []string{"udp", "tcp"}, "firewalld drops DNS from pods on bridge0: zone public does not allow service dns"},
		{
			"nftables", func(l *lab.Lab) {
				l.Run("nft", "add table inet filter; add chain inet filter input { type filter hook input priority 0; policy drop; }; add rule inet filter input udp dport 53 accept; add rule inet filter input iif lo accept")
			},
			[]string{"tcp"},
			"chain input of table inet filter drops DNS over TCP from pods on bridge0",
		},
		{
			"iptables", func(l *lab.Lab) {
				l.Run("iptables", "-A", "INPUT", "-i", "lo", "-j", "ACCEPT")
				l.Run("iptables", "-A", "INPUT", "-j", "REJECT", "--reject-with", "icmp-host-prohibited")
			},
			[]string{"udp", "tcp"},
			"chain INPUT of table ip filter drops DNS from pods on bridge0",
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			n := newPodNode(t, "", "www.example.com. 300 IN A 192.0.2.80\n", "podCIDRs: [10.128.0.0/14]\n")
			if !n.answers("udp") || !n.answers("tcp") {
				t.Fatal("without a filter the pod gets no answer")
			}
			if f := n.inputFilter(t); f.Level != doctor.OK || !strings.Contains(f.What, "bridge0") {
				t.Errorf("without a filter: %+v", f)
			}
			row.apply(n.l)
			for _, protocol := range []string{"udp", "tcp"} {
				if n.answers(protocol) == slices.Contains(row.drops, protocol) {
					t.Errorf("over %s the pod gets an answer: %v", protocol, n.answers(protocol))
				}
			}
			f := n.inputFilter(t)
			if f.Level != doctor.Fail || f.What != row.says {
				t.Errorf("with a filter: %+v", f)
			}
			if row.name == "firewalld" && !strings.Contains(readDocument(t, "docs/howto/clients.md"), f.Fix) {
				t.Errorf("docs/howto/clients.md does not have %s", f.Fix)
			}
			n.l.Run("sh", "-c", f.Fix)
			if !n.answers("udp") || !n.answers("tcp") {
				t.Errorf("the pod gets no answer after %s", f.Fix)
			}
			if f := n.inputFilter(t); f.Level != doctor.OK {
				t.Errorf("after %s: %+v", f.Fix, f)
			}
		})
	}
}

// TestFirewalldPolicy: the file in contrib's MachineConfig opens firewalld to pods only.
func TestFirewalldPolicy(t *testing.T) {
	lab.Need(t, "firewalld", "nft", "dig")
	data, err := os.ReadFile("../../contrib/machineconfig/97-worker-node-dns-firewalld.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var config struct {
		Spec struct {
			Config struct {
				Storage struct {
					Files []struct {
						Path     string
						Contents struct{ Source string }
					}
				}
			}
		}
	}
	if err := yaml.Unmarshal(data, &config); err != nil || len(config.Spec.Config.Storage.Files) != 1 {
		t.Fatalf("%+v, %v", config, err)
	}
	file := config.Spec.Config.Storage.Files[0]
	text, err := url.PathUnescape(strings.TrimPrefix(file.Contents.Source, "data:,"))
	if err != nil {
		t.Fatal(err)
	}
	n := newPodNode(t, "", "www.example.com. 300 IN A 192.0.2.80\n", "podCIDRs: [10.128.0.0/14]\nallowFrom: all\n")
	neighbor := n.l.Namespace("neighbor")
	n.l.Veth("out0", neighbor, "eth0")
	n.l.Addr("out0", "198.51.100.1/24")
	neighbor.Run("ip", "addr", "add", "198.51.100.2/24", "dev", "eth0")
	neighbor.Run("ip", "route", "add", bridgeIP, "via", "198.51.100.1")
	asks := func() (string, error) {
		return neighbor.Try("dig", "+tries=1", "+time=3", "@"+bridgeIP, "www.example.com.")
	}
	if out, err := asks(); err != nil {
		t.Fatalf("without a filter a neighbor gets no answer:\n%s", out)
	}
	n.l.WriteFile(file.Path, text)
	n.l.Bus()
	n.l.Firewalld()
	if !n.answers("udp") || !n.answers("tcp") {
		t.Error("the pod gets no answer")
	}
	if f := n.inputFilter(t); f.Level != doctor.OK {
		t.Errorf("doctor: %+v", f)
	}
	if out, err := asks(); err == nil {
		t.Errorf("a neighbor gets an answer:\n%s", out)
	}
}
