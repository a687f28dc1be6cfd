package netstate

import (
	"net/netip"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/node-dns/node-dns/internal/test/lab"
)

func TestMain(m *testing.M) { lab.Main(m) }

func TestState(t *testing.T) {
	s := State{
		Addrs: []Addr{
			{Addr: ip("192.168.122.50"), Interface: "eth0"},
			{Addr: ip("fe80::50%eth0"), Interface: "eth0", Index: 2},
		},
		Default4: &DefaultRoute{Interface: "eth0"}, // unnumbered, without an address to borrow
		Default6: &DefaultRoute{Interface: "eth1", Source: ip("2001:db8::50")},
	}
	if got := s.NodeIP(); got != ip("2001:db8::50") {
		t.Errorf("NodeIP: got %v, want the IPv6 route's source", got)
	}
	if got := s.DefaultInterface(); got != "eth0" {
		t.Errorf("DefaultInterface: got %q, want eth0", got)
	}
	if got := (State{}).NodeIP(); got.IsValid() {
		t.Errorf("NodeIP of the zero State: got %v", got)
	}
	if got := (State{}).DefaultInterface(); got != "" {
		t.Errorf("DefaultInterface of the zero State: got %q", got)
	}
	for addr, want := range map[string]bool{
		"192.168.122.50":        true,
		"::ffff:192.168.122.50": true,
		"192.168.122.51":        false,
		"127.0.0.53":            true,
		"::1":                   true,
		"fe80::50%eth0":         true,
		"fe80::50":              true,
		"fe80::50%eth1":         false,
		"fe80::50%2":            true, // the kernel's form for a datagram's sender: version.bind was refused to this host, because it is only for the host itself
		"fe80::50%3":            false,
		"0.0.0.0":               false,
	} {
		if got := s.IsLocal(netip.MustParseAddr(addr)); got != want {
			t.Errorf("IsLocal(%s): got %v, want %v", addr, got, want)
		}
	}
}

// TestNodeIPWithoutRoute: an air-gapped node with one address and no default route had no node IP
// until nodeIP: was set.
func TestNodeIPWithoutRoute(t *testing.T) {
	lo := Addr{Addr: ip("127.0.0.1"), Interface: "lo", Up: true}
	up := func(texts ...string) []Addr {
		list := []Addr{lo, {Addr: ip("::1"), Interface: "lo", Up: true}, {Addr: ip("fe80::50%eth0"), Interface: "eth0", Up: true}, {Addr: ip("169.254.20.10"), Interface: "dummy0", Up: true}}
		for _, text := range texts {
			list = append(list, Addr{Addr: ip(text), Interface: "eth0", Up: true})
		}
		return list
	}
	tests := []struct {
		name  string
		state State
		want  string
	}{
		{"one address", State{Addrs: up("10.0.0.5")}, "10.0.0.5"},
		{"one of each family", State{Addrs: up("2001:db8::5", "10.0.0.5")}, "10.0.0.5"},
		{"one IPv6 address", State{Addrs: up("2001:db8::5")}, "2001:db8::5"},
		{"two", State{Addrs: up("10.0.0.5", "10.0.1.5")}, "invalid IP"},
		// The order of the two decided whether the node had DNS after a boot.
		{"one address and a container bridge", State{Addrs: append(up("10.0.0.5"), Addr{Addr: ip("172.17.0.1"), Interface: "docker0", Up: true}, Addr{Addr: ip("10.88.0.1"), Interface: "podman0", Up: true})}, "10.0.0.5"},
		{"two IPv4 addresses and one IPv6 address", State{Addrs: up("10.0.0.5", "10.0.1.5", "2001:db8::5")}, "invalid IP"},
		{"only link-local addresses", State{Addrs: up()}, "invalid IP"},
		{"down", State{Addrs: []Addr{lo, {Addr: ip("10.0.0.5"), Interface: "eth0"}}}, "invalid IP"},
		{"tentative", State{Addrs: []Addr{{Addr: ip("2001:db8::5"), Interface: "eth0", Up: true, Tentative: true}}}, "invalid IP"},
		{"a default route takes precedence", State{Addrs: up("10.0.0.5"), Default6: &DefaultRoute{Source: ip("2001:db8::5")}}, "2001:db8::5"},
	}
	for _, tt := range tests {
		if got := tt.state.NodeIP().String(); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
		}
	}
}

// leaks must be called before lab.New, because Cleanup functions run in reverse order.
func leaks(t *testing.T) {
	t.Helper()
	ignore := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, ignore) })
}

// TestIsService: an address is the node's own unless each link that has it is for Services.
func TestIsService(t *testing.T) {
	addr := netip.MustParseAddr("169.254.20.10")
	for _, test := range []struct {
		name, links string
		asked, want bool
	}{
		{"not local", "", true, false},
		{"of the host", "eth0", true, false},
		{"IPVS", "kube-ipvs0", false, true},
		{"of the helper", "node-dns", false, true},
		{"of NodeLocal DNSCache", "nodelocaldns", false, false},
		{"of NodeLocal DNSCache, to be intercepted", "nodelocaldns", true, true},
		{"of NodeLocal DNSCache and the helper", "nodelocaldns node-dns", true, true},
		{"on lo", "lo", false, false},
		{"on lo, to be intercepted", "lo", true, true},
		{"of the host and the helper", "node-dns eth0", true, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			var s State
			for link := range strings.FieldsSeq(test.links) {
				s.Addrs = append(s.Addrs, Addr{Addr: addr, Interface: link})
			}
			var asked []netip.Addr
			if test.asked {
				asked = []netip.Addr{addr}
			}
			if got := s.IsService(addr, asked); got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

func TestReplacement(t *testing.T) {
	for _, test := range []struct {
		name, link string
		want       Replacement
	}{
		{"Cilium", "cilium_host", Replacement{Name: Cilium, Link: "cilium_host"}},
		{"OVN-Kubernetes", "ovn-k8s-mp0", Replacement{Name: "OVN-Kubernetes", Link: "ovn-k8s-mp0", Always: true}},
		{"a bridge", "cni0", Replacement{}},
		{"OVN without Kubernetes", "ovn0", Replacement{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := State{Addrs: []Addr{{Addr: ip("10.0.0.7"), Interface: "eth0"}, {Addr: ip("10.128.0.2"), Interface: test.link}}}
			got, found := s.Replacement()
			if got != test.want || found != (test.want != Replacement{}) {
				t.Errorf("got %+v, %v, want %+v", got, found, test.want)
			}
		})
	}
}

func TestSteady(t *testing.T) {
	eth0 := netip.MustParseAddr("192.0.2.10")
	node := State{
		Addrs:    []Addr{{Addr: netip.MustParseAddr("127.0.0.1"), Interface: "lo", Up: true}, {Addr: eth0, Interface: "eth0", Up: true}, {Addr: netip.MustParseAddr("10.128.0.1"), Interface: "eth1", Up: true}},
		Default4: &DefaultRoute{Interface: "eth0", Source: eth0},
	}
	without := node
	without.Default4 = nil
	gone := State{Addrs: node.Addrs[:1]}
	first := Addr{Addr: netip.MustParseAddr("192.0.2.10"), Interface: "eth0", Up: true}
	sole := State{Addrs: []Addr{first}}
	both := State{Addrs: []Addr{first, {Addr: netip.MustParseAddr("172.17.0.1"), Interface: "docker0", Up: true}}}
	tests := []struct {
		name        string
		before, now State
		want        string
	}{
		{"first read of the kernel's state", State{}, node, "192.0.2.10"},
		{"a failed read is ignored", node, State{}, "192.0.2.10"},
		{"default route removed, address kept", node, without, "192.0.2.10"},
		{"a second address appears", sole, both, "192.0.2.10"},
		{"default route and address removed", node, gone, "invalid IP"},
	}
	for _, test := range tests {
		if got := Steady(test.before, test.now).NodeIP().String(); got != test.want {
			t.Errorf("%s: node IP %s, expected %s", test.name, got, test.want)
		}
	}
}
