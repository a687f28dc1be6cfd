package firewall

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/node-dns/node-dns/internal/netstate"
	"github.com/node-dns/node-dns/internal/nodeconfig"
	"github.com/node-dns/node-dns/internal/test/golden"
	"github.com/node-dns/node-dns/internal/test/lab"
)

func TestMain(m *testing.M) { lab.Main(m) }

func prefixes(texts ...string) []netip.Prefix {
	var all []netip.Prefix
	for _, text := range texts {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
}

// server is a nameserver at 10.0.0.7 on eth0, which has the default route. links are more
// addresses, as in "cni0 10.128.0.1/24".
func server(links ...string) Nameserver {
	n := Nameserver{
		Listen:    []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:53"), netip.MustParseAddrPort("10.0.0.7:53")},
		AllowFrom: nodeconfig.AllowFrom{Local: true},
		Net:       netstate.State{Default4: &netstate.DefaultRoute{Interface: "eth0", Index: 2}},
	}
	for i, text := range append([]string{"lo 127.0.0.1/8", "eth0 10.0.0.7/24", "eth0 fe80::7/64"}, links...) {
		name, prefix, _ := strings.Cut(text, " ")
		p := netip.MustParsePrefix(prefix)
		n.Net.Addrs = append(n.Net.Addrs, netstate.Addr{Addr: p.Addr(), Bits: p.Bits(), Interface: name, Index: i, Up: true})
	}
	return n
}

// direct adds routes without a router, as in "cali1 10.1.2.3/32".
func (n Nameserver) direct(routes ...string) Nameserver {
	for i, text := range routes {
		name, prefix, _ := strings.Cut(text, " ")
		n.Net.OnLink = append(n.Net.OnLink, netstate.OnLink{Network: netip.MustParsePrefix(prefix), Interface: name, Index: 100 + i})
	}
	return n
}

func (n Nameserver) pods(networks ...string) Nameserver {
	n.PodCIDRs = prefixes(networks...)
	return n
}

func (n Nameserver) allow(local bool, networks ...string) Nameserver {
	n.AllowFrom = nodeconfig.AllowFrom{Local: local, Networks: prefixes(networks...)}
	return n
}

func TestLinks(t *testing.T) {
	down := server("cni0 10.128.0.1/24")
	down.Net.Addrs[3].Up = false
	everyone := server("eth1 192.168.3.7/24")
	everyone.AllowFrom = nodeconfig.AllowFrom{All: true}
	for _, row := range []struct {
		name   string
		server Nameserver
		want   string // interface, network, address of one client, and kind
	}{
		{"nothing but the site", server(), ""},
		{"a bridge of podCIDRs", server("br7 10.128.0.1/24").pods("10.128.0.0/14"), "br7 10.128.0.0/24 10.128.0.2 pods"},
		{"a bridge of both families", server("br7 10.128.0.1/24", "br7 fd77::1/64").pods("10.128.0.0/14", "fd77::/48"), "br7 10.128.0.0/24 10.128.0.2 pods, br7 fd77::/64 fd77::2 pods"},
		{"a bridge that is down", down, ""},
		{"another bridge in addition to that of podCIDRs", server("br7 10.128.0.1/24", "br8 172.17.0.1/16").pods("10.128.0.0/14"), "br7 10.128.0.0/24 10.128.0.2 pods"},
		{"podCIDRs on no interface", server("br8 172.17.0.1/16").pods("10.128.0.0/14"), ""},
		{"pods in the site's network", server().pods("10.0.0.0/16"), "eth0 10.0.0.0/24 10.0.0.1 pods"},
		{"the site's network around podCIDRs", server("br7 10.128.0.1/24").pods("10.0.0.128/25", "10.128.0.0/14"), "br7 10.128.0.0/24 10.128.0.2 pods"},
		{"OpenShift SDN", server("tun0 10.128.0.1/23").direct("tun0 10.128.0.0/14").pods("10.128.0.0/14"), "tun0 10.128.0.0/23 10.128.0.2 pods, tun0 10.128.0.0/14 10.128.0.2 pods"},
		{"Calico", server().direct("cali1 10.1.2.3/32", "cali2 10.1.2.4/32"), "cali1 10.1.2.3/32 10.1.2.3 pods, cali2 10.1.2.4/32 10.1.2.4 pods"},
		{"Cilium", server("cilium_host 10.1.2.7/32").direct("cilium_host 10.1.2.7/32").pods("10.1.0.0/16"), "cilium_host 10.1.0.0/16 10.1.0.1 pods"},
		{"Cilium, of unknown networks", server("cilium_host 10.1.2.7/32"), ""},
		{"flannel's tunnel", server("cni0 10.1.2.1/24", "flannel.1 10.1.2.0/32").pods("10.1.0.0/16"), "cni0 10.1.2.0/24 10.1.2.2 pods"},
		{"a network plugin, of unknown networks", server("cni0 10.1.2.1/24", "eth1 192.168.3.7/24"), "cni0 10.1.2.0/24 10.1.2.2 pods"},
		{"private networks", server("eth1 192.168.3.7/24", "vpn0 100.64.0.1/32", "eth2 198.51.100.1/24"), "eth1 192.168.3.0/24 192.168.3.1 guess"},
		{"IPVS", server("kube-ipvs0 10.96.0.1/32", "kube-ipvs0 10.96.0.10/32"), ""},
		{"link-local addresses", server("nodelocaldns 169.254.20.10/24", "eth1 fe80::8/64"), ""},
		{"a private network, and allowFrom without local", server("eth1 192.168.3.7/24").allow(false, "203.0.113.0/24"), "eth0 203.0.113.0/24 203.0.113.1 allowFrom"},
		{"a private network, and allowFrom: all", everyone, "eth1 192.168.3.0/24 192.168.3.1 guess"},
		{"a private network that allowFrom names", server("eth1 192.168.3.7/24").allow(true, "192.168.0.0/16"), "eth1 192.168.3.0/24 192.168.3.1 allowFrom"},
		{"the site that allowFrom names", server("br7 10.128.0.1/24").pods("10.128.0.0/14").allow(true, "10.0.0.0/24"), "br7 10.128.0.0/24 10.128.0.2 pods, eth0 10.0.0.0/24 10.0.0.1 allowFrom"},
		{"IPv6 behind a router that there is not", server().allow(true, "2001:db8::/32"), ""},
		{"loopback that allowFrom names", server().allow(true, "127.0.0.0/8"), ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			var got []string
			for _, l := range row.server.Links() {
				got = append(got, fmt.Sprint(l.Interface, " ", l.Clients, " ", l.Source, " ", []string{"pods", "allowFrom", "guess"}[l.kind]))
			}
			if diff := cmp.Diff(row.want, strings.Join(got, ", ")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// zones is a firewalld with these zones and the default zone public.
func zones(all ...Zone) *Firewalld {
	byName := map[string]Zone{"public": {Name: "public", Target: "default", Ports: []Port{{22, 22, "tcp"}}}}
	for _, z := range all {
		byName[z.Name] = z
	}
	return newFirewalld("public", byName)
}

var dnsPorts = []Port{{53, 53, "tcp"}, {50, 60, "udp"}}

// TestZones checks the verdicts of firewalld's zones without the kernel's rules.
func TestZones(t *testing.T) {
	for _, row := range []struct {
		name      string
		firewalld *Firewalld
		want      string // zone, and verdicts for UDP and TCP
	}{
		{"not running", nil, " aa"},
		{"the default zone", zones(), "public dd"},
		{"the default zone accepts", zones(Zone{Name: "public", Ports: dnsPorts}), "public aa"},
		{"one protocol is accepted", zones(Zone{Name: "public", Ports: dnsPorts[1:]}), "public ad"},
		{"an IP protocol is accepted", zones(Zone{Name: "public", Protocols: []string{"tcp"}}), "public da"},
		{"bound by name", zones(Zone{Name: "trusted", Target: "ACCEPT", Interfaces: []string{"cni0"}}), "trusted aa"},
		{"bound by a pattern", zones(Zone{Name: "trusted", Target: "ACCEPT", Interfaces: []string{"cn+"}}), "trusted aa"},
		{"another interface is bound", zones(Zone{Name: "trusted", Target: "ACCEPT", Interfaces: []string{"cni1", "docker+"}}), "public dd"},
		{"bound by network", zones(Zone{Name: "pods", Ports: dnsPorts, Sources: []string{"10.128.0.0/14"}}), "pods aa"},
		{"bound by address", zones(Zone{Name: "drop", Target: "DROP", Sources: []string{"10.128.0.2"}}, Zone{Name: "trusted", Target: "ACCEPT", Interfaces: []string{"cni0"}}), "drop dd"},
		{"bound by other networks", zones(Zone{Name: "trusted", Target: "ACCEPT", Sources: []string{"10.0.0.0/24", "fd77::/48"}}), "public dd"},
		{"perhaps bound by an ipset", zones(Zone{Name: "trusted", Target: "ACCEPT", Sources: []string{"ipset:pods"}}), "public ??"},
		{"rich rules", zones(Zone{Name: "public", More: true}), "public ??"},
		{"rich rules of a zone that drops", zones(Zone{Name: "public", Target: "DROP", More: true}), "public ??"}, // rich rules come before the target
		{"rich rules, and a port", zones(Zone{Name: "public", More: true, Ports: dnsPorts[:1]}), "public ?a"},
		{"without its default zone", &Firewalld{Default: "gone"}, "gone ??"},
	} {
		t.Run(row.name, func(t *testing.T) {
			link := Link{Interface: "cni0", Source: netip.MustParseAddr("10.128.0.2")}
			z, udp := row.firewalld.decide(link, 53, "udp")
			_, tcp := row.firewalld.decide(link, 53, "tcp")
			letters := map[Verdict]string{Accept: "a", Drop: "d", Unknown: "?"}
			if got := z.Name + " " + letters[udp] + letters[tcp]; got != row.want {
				t.Errorf("got %q, want %q", got, row.want)
			}
		})
	}
}

// dropping is a ruleset that drops everything.
func dropping(family Family, table, name string) *Ruleset {
	return &Ruleset{Inputs: []Chain{{Family: family, Table: table, Name: name, Drop: true}}}
}

// TestFind compares the text of findings and the command that opens the filter with golden files.
func TestFind(t *testing.T) {
	pods := server("cni0 10.128.0.1/24").pods("10.128.0.0/14")
	several := server().pods("10.1.0.0/16")
	for i := range 7 {
		several = several.direct(fmt.Sprintf("cali%d7f 10.1.2.%d/32", i, i))
	}
	both := server("cni0 10.128.0.1/24", "cni0 fd77::1/64").pods("10.128.0.0/14", "fd77::/48")
	both.Listen = append(both.Listen, netip.MustParseAddrPort("[fd77::1]:53"), netip.MustParseAddrPort("10.0.0.7:8053"))
	trusted := Zone{Name: "trusted", Target: "ACCEPT", Interfaces: []string{"cni0"}}
	bound := Zone{Name: "internal", Interfaces: []string{"cni0"}}
	for _, row := range []struct {
		name   string
		state  State
		server Nameserver
	}{
		{"nothing-known", State{}, pods},
		{"nothing-drops", State{Rules: &Ruleset{}, Firewalld: zones(trusted)}, pods},
		{"no-rules-but-a-zone", State{Rules: &Ruleset{}, Firewalld: zones()}, pods}, // a policy accepts
		{"no-clients", State{Rules: dropping(Inet, "filter", "input")}, server()},
		{"default-zone", State{Rules: dropping(Inet, "firewalld", "filter_INPUT"), Firewalld: zones()}, pods},
		{"default-zone-not-root", State{Firewalld: zones()}, pods},
		{"zone-of-the-pods-alone", State{Firewalld: zones(bound)}, pods},
		{"zone-without-tcp", State{Firewalld: zones(Zone{Name: "internal", Interfaces: []string{"cni0"}, Ports: dnsPorts[1:]})}, pods},
		{"zone-with-rich-rules-not-root", State{Firewalld: zones(Zone{Name: "public", More: true})}, pods},
		{"zone-and-both-families", State{Firewalld: zones()}, both},
		{"zone-and-many-interfaces", State{Firewalld: zones()}, several},
		{"zone-and-a-guess", State{Firewalld: zones()}, server("eth1 192.168.3.7/24")},
		{"zone-and-allowfrom", State{Firewalld: zones()}, server().allow(true, "10.0.0.0/8")},
		{"firewalld-is-silent", State{Rules: dropping(Inet, "firewalld", "filter_INPUT")}, pods},
		{"firewalld-by-iptables-legacy", State{Rules: &Ruleset{}, Firewalld: zones(), Legacy: []string{"iptables-legacy"}}, pods},
		{"another-table-beside-firewalld", State{Rules: dropping(Inet, "site", "input"), Firewalld: zones(trusted)}, pods},
		{"nftables", State{Rules: dropping(Inet, "filter", "input")}, pods},
		{"nftables-and-both-families", State{Rules: dropping(IPv6, "filter", "input")}, both},
		{"nftables-and-many-interfaces", State{Rules: dropping(IPv4, "site's", "input")}, several},
		{"iptables", State{Rules: dropping(IPv4, "filter", "INPUT")}, pods},
		{"iptables-and-many-interfaces", State{Rules: dropping(IPv4, "filter", "INPUT")}, several},
		{"ip6tables", State{Rules: dropping(IPv6, "filter", "INPUT")}, both},
		{"iptables-legacy", State{Rules: &Ruleset{}, Legacy: []string{"iptables-legacy"}}, pods},
		{"iptables-legacy-of-the-other-family", State{Rules: &Ruleset{}, Legacy: []string{"ip6tables-legacy"}}, pods},
	} {
		t.Run(row.name, func(t *testing.T) {
			var b strings.Builder
			for _, f := range row.state.Find(row.server) {
				fmt.Fprintf(&b, "drops %v, expected %v: %s\n", f.Drops, f.Expected, f.What)
				for _, line := range f.Details {
					fmt.Fprintf(&b, "    %s\n", line)
				}
				fmt.Fprintf(&b, "  -> %s\n", f.Fix)
			}
			golden.Check(t, filepath.Join("testdata", row.name+".txt"), b.String())
		})
	}
}

// FuzzParsePort proves that a valid range is ordered and equals the result of parsing its formatted
// text.
func FuzzParsePort(f *testing.F) {
	for _, text := range []string{"53", "5000-5010", "53-", "-53", "60-50", "65536", " 53", "0x35"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := parsePort(text, "udp")
		if err != nil {
			return
		}
		again := fmt.Sprintf("%d-%d", p.From, p.To)
		if q, err := parsePort(again, "udp"); err != nil || q != p || p.From > p.To {
			t.Errorf("parsed %q as %v, and %q as %v, %v", text, p, again, q, err)
		}
	})
}
