package nm

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/node-dns/node-dns/internal/dns/nameserver"
)

// config builds a DNSConfig from strings in NetworkManager's syntax.
func config(iface string, priority int, servers, domains string) DNSConfig {
	l := lists{zone: iface}
	l.addServers(words(servers))
	l.addDomains(words(domains))
	if len(l.invalid)+len(l.invalidDomains) > 0 {
		panic("invalid word in a test's configuration")
	}
	return DNSConfig{Interface: iface, Priority: priority, Nameservers: l.servers, Domains: l.domains}
}

func vpn(iface string, priority int, servers, domains string) DNSConfig {
	c := config(iface, priority, servers, domains)
	c.VPN = true
	return c
}

func global(servers, domains string) DNSConfig {
	c := config("", 100, servers, domains)
	c.Global = true
	return c
}

func TestUpstreams(t *testing.T) {
	tests := []struct {
		name     string
		configs  []DNSConfig
		onRoute  string // interfaces with a default route
		defaults string
		routes   string // "domain=servers@interface", joined by "; "
	}{{
		name: "no configurations",
	}, {
		name:     "one interface",
		configs:  []DNSConfig{config("eth0", 100, "10.0.0.3 10.0.0.2", "example.test")},
		onRoute:  "eth0",
		defaults: "10.0.0.3 10.0.0.2",
	}, {
		name: "dual stack",
		configs: []DNSConfig{
			config("eth0", 100, "10.0.0.2", "example.test"),
			config("eth0", 100, "fd77::53 fe80::1", "v6.example.test"),
		},
		onRoute:  "eth0",
		defaults: "10.0.0.2 fd77::53 fe80::1%eth0",
	}, {
		name:     "same server twice",
		configs:  []DNSConfig{config("eth0", 100, "10.0.0.2 10.0.0.2", ""), config("eth0", 100, "10.0.0.2 fd77::53", "")},
		onRoute:  "eth0",
		defaults: "10.0.0.2 fd77::53",
	}, {
		name:     "DNS over TLS is preserved",
		configs:  []DNSConfig{config("eth0", 100, "dns+tls://10.0.0.2#dns.example.test 10.0.0.2", "")},
		onRoute:  "eth0",
		defaults: "dns+tls://10.0.0.2#dns.example.test 10.0.0.2",
	}, {
		name: "second interface without default route",
		configs: []DNSConfig{
			config("eth0", 100, "10.0.0.2", "example.test"),
			config("eth1", 100, "10.9.0.1", "storage.test ~9.10.in-addr.arpa"),
		},
		onRoute:  "eth0",
		defaults: "10.0.0.2",
		routes:   "storage.test=10.9.0.1@eth1; 9.10.in-addr.arpa=10.9.0.1@eth1",
	}, {
		name:     "second interface without default route and without domains is not queried",
		configs:  []DNSConfig{config("eth0", 100, "10.0.0.2", ""), config("eth1", 100, "10.9.0.1", "")},
		onRoute:  "eth0",
		defaults: "10.0.0.2",
	}, {
		name:     "IPv4 and IPv6 default routes on two interfaces",
		configs:  []DNSConfig{config("eth0", 100, "10.0.0.2", "a.test"), config("eth1", 100, "fd77::53", "b.test")},
		onRoute:  "eth0 eth1",
		defaults: "10.0.0.2 fd77::53",
	}, {
		name: "split tunnel",
		configs: []DNSConfig{
			vpn("tun0", 50, "10.8.0.1 10.8.0.2", "corp.test ~lab.corp.test"),
			config("eth0", 100, "10.0.0.2", "example.test"),
		},
		onRoute:  "eth0",
		defaults: "10.0.0.2",
		routes:   "corp.test=10.8.0.1 10.8.0.2@tun0; lab.corp.test=10.8.0.1 10.8.0.2@tun0",
	}, {
		name: "full tunnel",
		configs: []DNSConfig{
			vpn("tun0", 50, "10.8.0.1", "corp.test"),
			config("eth0", 100, "10.0.0.2", "example.test"),
		},
		onRoute:  "tun0",
		defaults: "10.8.0.1",
		routes:   "example.test=10.0.0.2@eth0",
	}, {
		name: "wildcard without default route",
		configs: []DNSConfig{
			vpn("tun0", 50, "10.8.0.1", "~."),
			config("eth0", 100, "10.0.0.2", "example.test"),
		},
		onRoute:  "eth0",
		defaults: "10.8.0.1 10.0.0.2",
	}, {
		name:     "wildcard as NetworkManager's own code writes it",
		configs:  []DNSConfig{config("eth1", 100, "10.9.0.1", "~"), config("eth0", 100, "10.0.0.2", "")},
		onRoute:  "eth0",
		defaults: "10.9.0.1 10.0.0.2",
	}, {
		name: "negative priority of a full tunnel hides everything else",
		configs: []DNSConfig{
			vpn("tun0", -50, "10.8.0.1", "~. corp.test"),
			config("eth0", 100, "10.0.0.2", "example.test"),
			config("eth1", 100, "10.9.0.1", "storage.test"),
		},
		onRoute:  "eth0",
		defaults: "10.8.0.1",
	}, {
		name: "lower of two negative priorities wins",
		configs: []DNSConfig{
			config("eth1", -20, "10.9.0.1", "~."),
			config("eth0", -10, "10.0.0.2", ""),
		},
		onRoute:  "eth0",
		defaults: "10.9.0.1",
	}, {
		name: "negative priority of a split tunnel leaves the defaults alone",
		configs: []DNSConfig{
			vpn("tun0", -50, "10.8.0.1", "~corp.test"),
			config("eth0", 100, "10.0.0.2", "a.corp.test"),
			config("eth1", 100, "10.9.0.1", "b.corp.test storage.test"),
		},
		onRoute:  "eth0",
		defaults: "10.0.0.2",
		routes:   "corp.test=10.8.0.1@tun0; storage.test=10.9.0.1@eth1",
	}, {
		name: "negative priority without domains claims everything",
		configs: []DNSConfig{
			config("eth1", -1, "10.9.0.1", ""),
			config("eth0", 100, "10.0.0.2", "example.test"),
		},
		onRoute:  "eth0",
		defaults: "10.9.0.1",
	}, {
		// An admin sets a local resolver for the host on lo.
		name: "negative priority on lo is a local resolver",
		configs: []DNSConfig{
			config("lo", -10, "127.0.0.1", ""),
			config("eth0", 100, "10.0.0.2", ""),
		},
		onRoute:  "eth0",
		defaults: "10.0.0.2",
	}, {
		name: "same domain twice: the better priority wins",
		configs: []DNSConfig{
			config("eth1", 50, "10.9.0.1", "~corp.test"),
			config("eth2", 60, "10.7.0.1", "corp.test"),
			config("eth0", 100, "10.0.0.2", ""),
		},
		onRoute:  "eth0",
		defaults: "10.0.0.2",
		routes:   "corp.test=10.9.0.1@eth1",
	}, {
		name: "same domain twice: equal priority uses both",
		configs: []DNSConfig{
			config("eth1", 100, "10.9.0.1", "~corp.test"),
			config("eth2", 100, "10.7.0.1", "corp.test"),
			config("eth0", 100, "10.0.0.2", ""),
		},
		onRoute:  "eth0",
		defaults: "10.0.0.2",
		routes:   "corp.test=10.9.0.1 10.7.0.1@eth1",
	}, {
		name: "both families of one interface regardless of their priorities",
		configs: []DNSConfig{
			vpn("tun0", 50, "10.8.0.1", "corp.test"),
			config("eth0", 100, "10.0.0.2", ""),
			vpn("tun0", 150, "fd08::1", "corp.test"),
		},
		onRoute:  "eth0",
		defaults: "10.0.0.2",
		routes:   "corp.test=10.8.0.1 fd08::1@tun0",
	}, {
		name: "sub-domain on another interface regardless of its priority",
		configs: []DNSConfig{
			vpn("tun0", 50, "10.8.0.1", "corp.test"),
			config("eth1", 100, "10.9.0.1", "lab.corp.test"),
			config("eth0", 100, "10.0.0.2", ""),
		},
		onRoute:  "eth0",
		defaults: "10.0.0.2",
		routes:   "corp.test=10.8.0.1@tun0; lab.corp.test=10.9.0.1@eth1",
	}, {
		name: "LAN domain below a VPN domain stays on the LAN",
		configs: []DNSConfig{
			vpn("tun0", 50, "10.8.0.1", "~corp.test"),
			config("eth0", 100, "10.0.0.2", "node.corp.test other.test"),
		},
		onRoute:  "eth0",
		defaults: "10.0.0.2",
		routes:   "corp.test=10.8.0.1@tun0; node.corp.test=10.0.0.2@eth0",
	}, {
		name:     "search domain below a route of the same interface",
		configs:  []DNSConfig{config("eth0", 100, "10.0.0.2", "~corp.test node.corp.test")},
		onRoute:  "eth0",
		defaults: "10.0.0.2",
		routes:   "corp.test=10.0.0.2@eth0",
	}, {
		name: "same domain on LAN and VPN: the better priority wins",
		configs: []DNSConfig{
			vpn("tun0", 50, "10.8.0.1", "~corp.test"),
			config("eth0", 100, "10.0.0.2", "corp.test"),
		},
		onRoute:  "eth0",
		defaults: "10.0.0.2",
		routes:   "corp.test=10.8.0.1@tun0",
	}, {
		name: "routing-only domain of one of two default interfaces",
		configs: []DNSConfig{
			config("eth0", 100, "10.0.0.2", "a.test"),
			config("eth1", 100, "fd77::53", "~b.test"),
		},
		onRoute:  "eth0 eth1",
		defaults: "10.0.0.2 fd77::53",
		routes:   "b.test=fd77::53@eth1",
	}, {
		name: "no default route: interfaces without routing domains",
		configs: []DNSConfig{
			vpn("tun0", 50, "10.8.0.1", "corp.test"),
			config("eth0", 100, "10.0.0.2", "example.test"),
			config("eth1", 100, "10.9.0.1", "~storage.test"),
			config("eth2", 100, "10.7.0.1", ""),
		},
		defaults: "10.0.0.2 10.7.0.1",
		routes:   "corp.test=10.8.0.1@tun0; storage.test=10.9.0.1@eth1",
	}, {
		name: "no default route: interface with routing domains as a fallback",
		configs: []DNSConfig{
			vpn("tun0", 50, "10.8.0.1", ""),
			config("eth1", 100, "10.9.0.1", "~storage.test"),
		},
		defaults: "10.9.0.1",
		routes:   "storage.test=10.9.0.1@eth1",
	}, {
		name:     "no default route: VPN as a fallback",
		configs:  []DNSConfig{vpn("tun0", 50, "10.8.0.1", "~corp.test")},
		defaults: "10.8.0.1",
		routes:   "corp.test=10.8.0.1@tun0",
	}, {
		name:     "default route over an interface without nameservers",
		configs:  []DNSConfig{config("eth1", 100, "10.9.0.1", "example.test")},
		onRoute:  "eth0",
		defaults: "10.9.0.1",
	}, {
		name:     "configuration with only refused nameservers",
		configs:  []DNSConfig{config("eth0", -1, "", "example.test"), config("eth1", 100, "10.9.0.1", "")},
		onRoute:  "eth0",
		defaults: "10.9.0.1",
	}, {
		name: "global configuration overrides the connections",
		configs: []DNSConfig{
			global("10.5.0.1", ""),
			global("10.6.0.1 dns+tls://10.6.0.2", "corp.test"),
			config("eth0", 100, "10.0.0.2", "example.test"),
		},
		onRoute:  "eth0",
		defaults: "10.5.0.1",
		routes:   "corp.test=10.6.0.1 dns+tls://10.6.0.2@",
	}, {
		name:     "global configuration without nameservers",
		configs:  []DNSConfig{global("", ""), config("eth0", 100, "10.0.0.2", "")},
		onRoute:  "eth0",
		defaults: "10.0.0.2",
	}}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			defaults, routes := Snapshot{Configs: tt.configs}.Upstreams(strings.Fields(tt.onRoute))
			if diff := cmp.Diff(tt.defaults, join(defaults.Servers)); diff != "" {
				t.Errorf("defaults (-want +got):\n%s", diff)
			}
			var got []string
			for _, r := range routes {
				got = append(got, r.Domain.Relative()+"="+join(r.Servers)+"@"+r.Interface)
			}
			if diff := cmp.Diff(tt.routes, strings.Join(got, "; ")); diff != "" {
				t.Errorf("routes (-want +got):\n%s", diff)
			}
		})
	}
}

// TestSources: a route's source is the connection that named its servers, not the one with the
// default route.
func TestSources(t *testing.T) {
	named := func(c DNSConfig, connection string) DNSConfig {
		c.Connection = connection
		return c
	}
	eth0 := named(config("eth0", 100, "10.0.0.2", "example.test"), "System eth0")
	tests := []struct {
		name             string
		configs          []DNSConfig
		defaults, routes string
	}{
		{
			"VPN route in addition to LAN defaults",
			[]DNSConfig{named(vpn("tun0", 50, "10.8.0.1", "~corp.test"), "corpvpn"), eth0},
			"eth0 (System eth0)", "corp.test=tun0 (corpvpn)",
		},
		{
			"a VPN that claims all names",
			[]DNSConfig{named(vpn("tun0", -50, "10.7.0.2", "~."), "corpvpn"), eth0},
			"tun0 (corpvpn)", "",
		},
		{
			"a second link",
			[]DNSConfig{eth0, config("eth1", 100, "10.9.0.1", "lan.test")},
			"eth0 (System eth0)", "lan.test=eth1",
		},
		{
			"two links with one domain",
			[]DNSConfig{eth0, config("eth1", 100, "10.9.0.1", "lan.test"), config("eth2", 100, "10.9.0.2", "lan.test")},
			"eth0 (System eth0)", "lan.test=eth1 eth2",
		},
		{
			"IPv4 and IPv6 of one interface",
			[]DNSConfig{eth0, named(config("eth0", 100, "2001:db8::2", ""), "System eth0")},
			"eth0 (System eth0)", "",
		},
		{
			"the global configuration",
			[]DNSConfig{global("10.5.0.1", ""), global("10.6.0.1", "corp.test"), eth0},
			"global-dns (NetworkManager.conf)", "corp.test=global-dns (NetworkManager.conf)",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			defaults, routes := Snapshot{Configs: tt.configs}.Upstreams([]string{"eth0"})
			var got []string
			for _, r := range routes {
				got = append(got, r.Domain.Relative()+"="+strings.Join(r.Sources, " "))
			}
			if d, r := strings.Join(defaults.Sources, " "), strings.Join(got, "; "); d != tt.defaults || r != tt.routes {
				t.Errorf("got defaults from %q, want %q; got routes %q, want %q", d, tt.defaults, r, tt.routes)
			}
		})
	}
}

func join(servers []nameserver.Server) string {
	var texts []string
	for _, s := range servers {
		texts = append(texts, s.String())
	}
	return strings.Join(texts, " ")
}

func TestSearchList(t *testing.T) {
	tests := []struct {
		name    string
		configs []DNSConfig
		want    string
	}{
		{name: "no configurations"},
		{
			name:    "in order, without duplicates, ignoring case",
			configs: []DNSConfig{config("eth0", 100, "", "b.test a.test"), config("eth0", 100, "", "B.Test c.test.")},
			want:    "b.test a.test c.test",
		},
		{
			name:    "routing-only domains are not searched",
			configs: []DNSConfig{config("tun0", 50, "", "~. ~corp.test a.test ."), config("eth0", 100, "", "corp.test")},
			want:    "a.test corp.test",
		},
		{
			name:    "the global configuration overrides the connections",
			configs: []DNSConfig{global("10.5.0.1", ""), config("eth0", 100, "10.0.0.2", "a.test")},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := strings.Join(Snapshot{Configs: tt.configs}.SearchList(), " ")
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// FuzzUpstreams builds configurations from a seed, with frequent collisions of names and
// priorities.
func FuzzUpstreams(f *testing.F) {
	f.Add(uint64(1), uint8(3))
	f.Add(uint64(20), uint8(9))
	f.Fuzz(func(t *testing.T, seed uint64, count uint8) {
		random := rand.New(rand.NewPCG(seed, 0))
		s, known := Snapshot{}, false
		for range count % 12 {
			c := randomConfig(random)
			known = known || len(c.Nameservers) > 0
			s.Configs = append(s.Configs, c)
		}
		defaults, routes := s.Upstreams([]string{"if0"})
		if known != (len(defaults.Servers) > 0) {
			t.Errorf("with nameservers known %t got %d defaults", known, len(defaults.Servers))
		}
		seen := map[string]bool{}
		for _, r := range routes {
			if seen[r.Domain.String()] || r.Domain.IsRoot() || r.Domain.IsZero() || len(r.Servers) == 0 {
				t.Errorf("got the invalid route %v", r)
			}
			seen[r.Domain.String()] = true
		}
	})
}

func randomConfig(random *rand.Rand) DNSConfig {
	pick := func(words ...string) string { return words[random.IntN(len(words))] }
	var servers, domains []string
	for range random.IntN(3) {
		servers = append(servers, fmt.Sprintf("10.0.0.%d", random.IntN(5)))
	}
	for range random.IntN(4) {
		domains = append(domains, pick("", "~")+pick("a.test", "b.a.test", "c.b.a.test", "test", "."))
	}
	c := config(pick("if0", "if1", "if2", "lo"), random.IntN(5)-2, strings.Join(servers, " "), strings.Join(domains, " "))
	c.VPN = random.IntN(2) == 0
	if c.Global = random.IntN(8) == 0; c.Global {
		c.Interface = ""
	}
	return c
}
