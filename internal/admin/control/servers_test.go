package control

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/node-dns/node-dns/internal/test/golden"
)

// contested is a node on which every source configures servers.
func contested() Status {
	const by = "SetDomainServers by openshift (pid 812, uid 0, origin-node.service, :1.7)"
	s := well()
	s.Routes = []Route{
		{Domain: "corp.example.", Source: "D-Bus " + by, Rank: "D-Bus", Servers: []Server{up("192.0.2.98", 31*time.Millisecond)}},
		s.Routes[0], s.Routes[1],
		{Domain: "lab.example.", Local: true, Source: "dnsmasq /etc/dnsmasq.d/lab.conf:3", Rank: "dnsmasq"},
		{Domain: "//", Source: "dnsmasq /etc/dnsmasq.d/lab.conf:4", Rank: "dnsmasq", Servers: []Server{{Address: "192.0.2.60", State: "unknown"}}},
		{Domain: "vpn.example.", Source: "NetworkManager tun0 (Work)", Rank: "NetworkManager"},
		{Domain: ".", Source: "upstreams /etc/node-dns/node-dns.yaml:1", Rank: "node-dns.yaml", Servers: []Server{
			up("192.0.2.53", 1200*time.Microsecond),
			{Address: "dns+tls://192.0.2.54#dns.example", State: "down", Since: noon.Add(-2 * time.Minute), Queries: 412, Failures: 31, Refusals: 2, RouteQueries: 410, RouteFailures: 33, Error: "timeout"},
		}},
	}
	s.Overridden = []Loss{
		{
			Domain: "corp.example.", Local: true, Servers: []string{}, Source: "dnsmasq /etc/dnsmasq.d/lab.conf:1", Rank: "dnsmasq",
			By: "D-Bus " + by, Why: "D-Bus " + by + " wins over dnsmasq /etc/dnsmasq.d/lab.conf:1",
		},
		{
			Domain: "svc.cluster.local.", Servers: []string{"192.0.2.61"}, Source: "dnsmasq /etc/dnsmasq.d/lab.conf:2", Rank: "dnsmasq",
			Why: "it is in the cluster's zone, which another source answers",
		},
		{
			Domain: ".", Servers: []string{"10.0.0.2", "10.0.0.3"}, Source: "NetworkManager eth0 (System eth0)", Rank: "NetworkManager",
			By: "upstreams /etc/node-dns/node-dns.yaml:1", Why: "upstreams /etc/node-dns/node-dns.yaml:1 wins over NetworkManager eth0 (System eth0)",
		},
	}
	s.Refused = []Refused{
		{Domain: "vpn.example.", Server: "10.0.0.5", Source: "NetworkManager tun0 (Work)", Why: "this node: would loop"},
		{Server: `"10.0.0.300"`, Source: "event", Why: "not a nameserver's address"},
	}
	return s
}

// opportunistic is a node that uses TLS with servers that support it.
func opportunistic() Status {
	s := well()
	servers := s.Routes[2].Servers
	servers[0].Transport, servers[1].Transport = "tls (opportunistic)", "udp"
	servers[1].State, servers[1].RTT, servers[1].Queries, servers[1].RouteQueries = "up", 800*time.Microsecond, 7, 7
	return s
}

// lossy is a node whose first upstream loses large responses over UDP. The second upstream uses TLS
// and loses none.
func lossy() Status {
	s := opportunistic()
	servers := s.Routes[2].Servers
	servers[0].Transport, servers[0].UDPSize = "udp", 512
	servers[1].Transport, servers[1].UDPSize = "tls (opportunistic)", 512
	return s
}

func TestServerListText(t *testing.T) {
	screens := map[string]Status{"well": well(), "contested": contested(), "empty": {}}
	builtIn := well()
	builtIn.Routes, builtIn.Cluster.Resolver = builtIn.Routes[2:], synced()
	screens["built-in"] = builtIn
	noRoutes := well()
	noRoutes.Routes = nil
	screens["nobody"] = noRoutes
	screens["opportunistic"], screens["large-lost"] = opportunistic(), lossy()
	for name, status := range screens {
		t.Run(name, func(t *testing.T) {
			var text strings.Builder
			if err := status.ServerList().WriteText(&text); err != nil {
				t.Fatal(err)
			}
			golden.Check(t, "testdata/servers/"+name+".txt", text.String())
		})
	}
}

func TestServerListProblems(t *testing.T) {
	if problems := well().ServerList().Problems; len(problems) > 0 {
		t.Errorf("got problems %q on a healthy node", problems)
	}
	want := []string{
		"dns+tls://192.0.2.54#dns.example (for .) is down: timeout", "no usable server for vpn.example.: its names fail",
	}
	if diff := cmp.Diff(want, contested().ServerList().Problems); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestHostileNames proves that escape sequences and line breaks in a connection's name, a domain or
// an error are shown escaped, and that the status value itself stays unchanged.
func TestHostileNames(t *testing.T) {
	const evil = "eth0\x1b[2J\n! all is lost\r\u202e\u009b\xff\U000e0001"
	const shown = `eth0\x1b[2J\x0a! all is lost\x0d\u202e\u009b\xff\U000e0001`
	s := contested()
	for _, text := range []*string{
		&s.Routes[0].Domain, &s.Routes[0].Source, &s.Routes[0].Servers[0].Address, &s.Overridden[0].Why, &s.Overridden[1].Source,
		&s.Overridden[1].Servers[0], &s.Refused[0].Server, &s.Refused[0].Source, &s.ResolvConf.Owner, &s.Node.Name,
	} {
		*text = evil
	}
	s.ResolvConf.Ours, s.Notes, s.Problems = false, []string{"a note of\nseveral lines\x1b"}, []string{"x\x07"}
	var status, servers strings.Builder
	if err := s.WriteText(&status); err != nil {
		t.Fatal(err)
	}
	if err := s.ServerList().WriteText(&servers); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"status": status.String(), "servers": servers.String()} {
		if strings.ContainsFunc(text, func(r rune) bool {
			return r < ' ' && r != '\n' || r == 0x202e || r == 0x9b || r == 0xe0001 || r == 0xfffd
		}) {
			t.Errorf("%s contains a control character:\n%q", name, text)
		}
		if !strings.Contains(text, shown) {
			t.Errorf("%s does not show the name:\n%s", name, text)
		}
		for line := range strings.Lines(text) {
			if strings.HasPrefix(line, "! all is lost") {
				t.Errorf("%s has a forged line:\n%s", name, text)
			}
		}
	}
	if want := "  a note of\n    several lines\\x1b\n! x\\x07\n"; !strings.Contains(status.String(), want) {
		t.Errorf("no %q in\n%s", want, status.String())
	}
	if s.Routes[0].Servers[0].Address != evil || s.Overridden[1].Servers[0] != evil || slices.Contains(s.Notes, "") {
		t.Error("WriteText changed the value")
	}
}
