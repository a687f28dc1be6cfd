package hostdns

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/nm"
	"github.com/node-dns/node-dns/internal/test/golden"
	"github.com/node-dns/node-dns/internal/upstream"
)

var errSilent = errors.New("192.168.122.50:53 does not answer: connection refused")

// shown are plans as `plan`, `plan -o json` and `restore --dry-run` print them.
func shown() []struct {
	name    string
	plan    Plan
	silence error
} {
	vpn := upstream.Set{Servers: servers(sys + " dns+tls://9.9.9.9#dns.quad9.net"), Routes: []upstream.Route{{Domain: dnsname.MustParse("corp.example"), Servers: servers("172.16.0.53")}}}
	first := host(withResolvConf(file(generated)), withEvent("eth0", "up", sys))
	return []struct {
		name    string
		plan    Plan
		silence error
	}{
		{name: "take-over", plan: NewPlan(first)},
		{name: "waiting", plan: NewPlan(first), silence: errSilent},
		{name: "nothing-to-do", plan: NewPlan(after(host(withResolvConf(file(oursText)), withCaptured(sys)), nil))},
		{name: "back-to-the-original", silence: errSilent, plan: NewPlan(host(
			withResolvConf(file(oursText)), withCaptured(sys), withOriginal(file(generated)), withNetworkManager(dnsConfig("eth0", sys, "example.com"))))},
		{name: "held", plan: NewPlan(host(
			withResolvConf(file(generated)), withConfigFault(errors.New("x")), withProblem("/etc/node-dns/node-dns.yaml:3:9: listen: expected an address"), withoutDnsmasq()))},
		{name: "held-ours", plan: NewPlan(host(withResolvConf(file(oursText)), withConfigFault(errors.New("x")), withCaptured(sys)))},
		{name: "held-ours-silent", silence: errSilent, plan: NewPlan(host(withResolvConf(file(oursText)), withConfigFault(errors.New("x")), withCaptured(sys)))},
		{name: "held-ours-nameserver", plan: NewPlan(host(withResolvConf(file(ofAnotherNode)), withConfigFault(errors.New("x")), withCaptured(sys)))},
		{name: "held-ours-gone", plan: NewPlan(host(withResolvConf(file(ofAnotherNode)), withoutDefaultRoute(), withCaptured(sys)))},
		{name: "routes-and-refused", plan: NewPlan(host(
			withNetworkManager(dnsConfig("eth0", nodeIP+" "+sys+" dns+tls://9.9.9.9#dns.quad9.net", "a b c d e f"), vpnConfig("tun0", "172.16.0.53", "~corp.example")),
			withResolvConf(file("nameserver 10.0.0.9\nnameserver $(id)\nsearch vpn.example\n")), withRecord(upstream.NetworkManager, "eth0", vpn)))},
		{name: "networkmanager-lets-go", plan: NewPlan(host(
			withResolvConf(file(oursText)), withCaptured(sys), withNetworkManager(dnsConfig("eth0", sys, "example.com")), withConf(nm.Conf{})))},
		{name: "networkmanager-has-not-heard", plan: NewPlan(host(
			withResolvConf(file(oursText)), withCaptured(sys), withNetworkManager(dnsConfig("eth0", sys, "example.com")), withConf(nm.Conf{}), withSnippet()))},
		{name: "networkmanager-by-the-admin", plan: NewPlan(host(withResolvConf(file(oursText)), withCaptured(sys),
			withNetworkManager(dnsConfig("eth0", sys, "example.com")), withConf(nm.Conf{RcManager: nm.Setting{Value: "file", File: "/etc/NetworkManager/conf.d/10-admin.conf"}})))},
		{name: "restore-to-networkmanager", plan: newRestorePlan(host(
			withResolvConf(file(oursText)), withOriginal(file(generated)), withNetworkManagerConf(file(generated)), withSnippet()), false)},
		{name: "mode-only", plan: NewPlan(host(withResolvConf(File{Exists: true, Data: []byte(oursText), Mode: 0o600}), withCaptured(sys)))},
		{name: "restore-a-link", plan: newRestorePlan(host(
			withResolvConf(file(oursText)), withOriginal(link("../run/systemd/resolve/stub-resolv.conf", ""))), false)},
		{name: "restore-and-purge", plan: func() Plan {
			s := host(withResolvConf(file(oursText)), withOriginal(file(generated)), withCaptured(sys),
				func(s *State) { s.UpstreamsAlone, s.NodeResolvConfAlone = true, true })
			return withPurge(newRestorePlan(s, true), &s)
		}()},
		{name: "conflicts", plan: NewPlan(host(withResolvConf(file("# \x1b[2J\r\n"+oursText)), withAdmin("198.51.100.1", ""),
			withNetworkManager(byHand("eth0", "192.0.2.53", "10.0.0.2")), withCaptured("192.0.2.53 10.0.0.2")))},
		{name: "no-upstream", plan: NewPlan(host(withResolvConf(file("options timeout:1\n"))))},
		{name: "restore-what-is-not-ours", plan: newRestorePlan(host(withResolvConf(file(generated))), true)},
	}
}

func TestWriteText(t *testing.T) {
	for _, test := range shown() {
		t.Run(test.name, func(t *testing.T) {
			var text strings.Builder
			if err := test.plan.WriteText(&text, test.silence); err != nil {
				t.Fatal(err)
			}
			golden.Check(t, "testdata/plan/"+test.name+".txt", text.String())
		})
	}
}

func TestWriteJSON(t *testing.T) {
	for _, test := range shown() {
		t.Run(test.name, func(t *testing.T) {
			var text strings.Builder
			if err := test.plan.WriteJSON(&text, test.silence); err != nil {
				t.Fatal(err)
			}
			golden.Check(t, "testdata/plan/"+test.name+".json", text.String())
			checkJSON(t, text.String())
		})
	}
}

// checkJSON: the output has every list, even if it is empty, and the version comes first.
func checkJSON(t *testing.T, text string) {
	t.Helper()
	var p map[string]any
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		t.Fatal(err)
	}
	if p["apiVersion"] != "node-dns/v1" || p["kind"] != "Plan" {
		t.Errorf("apiVersion %v, kind %v", p["apiVersion"], p["kind"])
	}
	for _, key := range []string{"upstreams", "routes", "refused", "warnings", "problems", "steps"} {
		if _, ok := p[key].([]any); !ok {
			t.Errorf("%s is not a list: %v", key, p[key])
		}
	}
}

// brokenPipe accepts a few bytes, then fails.
type brokenPipe struct{ left int }

var errPipe = errors.New("broken pipe")

func (b *brokenPipe) Write(text []byte) (int, error) {
	if b.left -= len(text); b.left < 0 {
		return 0, errPipe
	}
	return len(text), nil
}

func TestWriteToBrokenPipe(t *testing.T) {
	plan := shown()[0].plan
	if err := plan.WriteText(&brokenPipe{left: 100}, nil); !errors.Is(err, errPipe) {
		t.Errorf("text: %v", err)
	}
	if err := plan.WriteJSON(&brokenPipe{left: 100}, nil); !errors.Is(err, errPipe) {
		t.Errorf("JSON: %v", err)
	}
}

// TestPathsBelowRoot: the output shows the host's paths, wherever the tree is.
func TestPathsBelowRoot(t *testing.T) {
	tests := []struct{ root, want string }{
		{"", "/etc/resolv.conf"}, {"/", "/etc/resolv.conf"}, {"/tmp/tree", "/etc/resolv.conf"}, {"tree/", "/etc/resolv.conf"},
	}
	for _, test := range tests {
		p := NewPaths(test.root)
		if got := p.host(p.ResolvConf); got != test.want {
			t.Errorf("root %q: %q", test.root, got)
		}
	}
	s := host(withResolvConf(file(generated)))
	s.Paths = NewPaths("/tmp/tree")
	var text strings.Builder
	if err := NewPlan(s).WriteText(&text, nil); err != nil || strings.Contains(text.String(), "/tmp/tree") {
		t.Errorf("error %v, text\n%s", err, text.String())
	}
}
