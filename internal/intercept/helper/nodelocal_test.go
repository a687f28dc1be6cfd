package helper

import (
	"fmt"
	"net"
	"net/netip"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/node-dns/node-dns/internal/dns/nameserver"
	"github.com/node-dns/node-dns/internal/intercept"
	"github.com/node-dns/node-dns/internal/test/lab"
)

// nodeCache simulates the pod of NodeLocal DNSCache, step by step as kubernetes/dns does.
type nodeCache struct {
	*world
	addr  netip.Addr
	table string // its family and name for nft
	end   func()
}

func (c *nodeCache) start() {
	c.t.Helper()
	if exec.Command("ip", "link", "add", nodelocal, "type", "dummy").Run() != nil { // no dummy links in this kernel
		command(c.t, "ip", "link", "add", nodelocal, "type", "bridge")
	}
	command(c.t, "ip", "link", "set", nodelocal, "up")
	command(c.t, "ip", "address", "add", c.addr.String(), "dev", nodelocal, "nodad")
	c.end = c.serveAs(c.addr.String(), func() string { return "CoreDNS-1.11.3" })
}

func (c *nodeCache) addRules() {
	c.t.Helper()
	command(c.t, "nft", fmt.Sprintf("table %s { chain out { type filter hook output priority raw; %s daddr %s udp dport 53 notrack; %[2]s saddr %[3]s udp sport 53 notrack; }; }",
		c.table, strings.Fields(c.table)[0], c.addr))
}

// TestPlaces: in any order of the links, the host's own wins over IPVS, and IPVS over ours. A
// neighbor is known only after an answer from it.
func TestPlaces(t *testing.T) {
	lab.New(t)
	addr := netip.MustParseAddr(cluster4)
	for _, row := range []struct {
		link string
		want place
	}{{ipvs, place{link: ipvs}}, {linkName, place{link: ipvs, ours: true}}, {"host0", place{link: "host0", ours: true}}, {"host1", place{link: "host0", ours: true}}} {
		command(t, "ip", "link", "add", row.link, "type", "bridge")
		command(t, "ip", "address", "add", cluster4+"/32", "dev", row.link)
		at, err := places([]netip.Addr{addr})
		if err != nil || at[addr] != row.want {
			t.Errorf("with %s, got %+v, want %+v: %v", row.link, at[addr], row.want, err)
		}
	}
	command(t, "ip", "link", "set", "host0", "up")
	command(t, "ip", "route", "add", "192.0.2.0/24", "dev", "host0")
	command(t, "ip", "route", "add", "2001:db8::/64", "dev", "host0")
	for _, row := range []struct {
		addr, state string
		want        place
	}{
		{"192.0.2.1", "reachable", place{neighbor: "host0"}},
		{"2001:db8::1", "stale", place{neighbor: "host0"}},
		{"192.0.2.2", "failed", place{}},
	} {
		command(t, "ip", "neighbor", "replace", row.addr, "lladdr", "02:00:00:00:00:01", "dev", "host0", "nud", row.state)
		addr := netip.MustParseAddr(row.addr)
		at, err := places([]netip.Addr{addr})
		if err != nil || at[addr] != row.want {
			t.Errorf("with the %s neighbor %s, got %+v, want %+v: %v", row.state, row.addr, at[addr], row.want, err)
		}
	}
}

// TestForgedNeighbor: a pod that sends a packet from an intercepted address becomes its neighbor in
// the kernel's table: over IPv6 always, over IPv4 without rp_filter and while the address is not
// local. One packet ended the interception, for as long as the kernel remembered it, and with
// NodeLocal DNSCache's address the DNS of all pods of the node. A neighbor counts only where this
// host's routes lead to it.
func TestForgedNeighbor(t *testing.T) {
	for _, test := range []struct{ addr, net, host, length string }{
		{cluster4, "10.96.0.0/12", "10.128.0.1", "/24"},
		{cluster6, "fd00::/112", "fd01::1", "/64"},
	} {
		t.Run(test.addr, func(t *testing.T) {
			l := lab.New(t)
			lab.Need(t, "dig")
			addr, pod := netip.MustParseAddr(test.addr), l.Namespace("pod")
			l.Veth("pod0", pod, "eth0")
			l.Run("ip", "address", "add", test.host+test.length, "dev", "pod0", "nodad")
			pod.Run("ip", "address", "add", netip.MustParseAddr(test.host).Next().String()+test.length, "dev", "eth0", "nodad")
			pod.Run("ip", "address", "add", test.addr, "dev", "eth0", "nodad")
			isKnown := func() bool { return strings.Contains(l.Run("ip", "neighbor", "show", test.addr), "lladdr") }
			for end := time.Now().Add(30 * time.Second); !isKnown(); {
				if time.Now().After(end) {
					t.Fatal("the kernel does not take the pod for a neighbor")
				}
				pod.Try("dig", "-b", test.addr, "+tries=1", "+timeout=1", "@"+test.host, "version.bind", "TXT", "CH")
			}
			for _, route := range []struct {
				name string
				add  []string // to `ip route`
				want string
			}{
				{"no route leads there", nil, ""},
				{"a route through another link", []string{"add", test.net, "dev", "lo"}, ""},
				{"a route through a gateway", []string{"replace", test.net, "via", netip.MustParseAddr(test.host).Next().String()}, ""},
				{"the host's own network", []string{"replace", test.net, "dev", "pod0"}, "pod0"},
				{"the gateway of a route", []string{"replace", test.net, "via", test.addr, "dev", "pod0", "onlink"}, "pod0"},
				{"one gateway of several", []string{"replace", test.net, "nexthop", "via", netip.MustParseAddr(test.host).Next().String(), "nexthop", "via", test.addr, "dev", "pod0", "onlink"}, "pod0"},
			} {
				if route.add != nil {
					l.Run(append([]string{"ip", "route"}, route.add...)...)
				}
				at, err := places([]netip.Addr{addr})
				if err != nil || at[addr].neighbor != route.want {
					t.Errorf("%s: got %+v, want the neighbor on %q: %v", route.name, at[addr], route.want, err)
				}
			}
		})
	}
}

func command(t *testing.T, argv ...string) {
	t.Helper()
	if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", strings.Join(argv, " "), err, out)
	}
}

// answersAs checks the name of the nameserver that a client of this host reaches at the cache's
// address.
func (c *nodeCache) answersAs(when, want string) {
	c.t.Helper()
	by, err := nameserver.Identify(c.t.Context(), new(net.Dialer), netip.AddrPortFrom(c.addr, port), time.Now().Add(10*time.Second))
	if err != nil || by != want {
		c.t.Errorf("%s, %q answers, want %q: %v", when, by, want, err)
	}
}

func (c *nodeCache) awaitMode(want intercept.Mode) {
	c.t.Helper()
	c.await("the mode "+string(want), func() bool {
		s, err := intercept.ReadState(intercept.StateFile(c.root))
		return err == nil && s != nil && len(s.Addresses) == 1 && s.Addresses[0].On && s.Addresses[0].Mode == want && strings.Contains(ruleset(c.t), "dnat")
	})
}

// TestNodeLocal: the cache answers while its rules are there, and node-dns from then on. One of the
// two always answers. The cache can return. An IPv6 address is not link-local, so that only the
// request says that it is the cache's.
func TestNodeLocal(t *testing.T) {
	for _, test := range []struct{ cache, node, table string }{
		{"169.254.20.10", "10.0.0.5", "ip nodelocal"},
		{"fd00::10", "fd01::5", "ip6 nodelocal"},
	} {
		t.Run(test.cache, func(t *testing.T) {
			c := &nodeCache{world: newWorld(t), addr: netip.MustParseAddr(test.cache), table: test.table}
			lab.Need(t, "nft")
			command(t, "ip", "address", "add", test.node, "dev", "lo", "nodad")
			c.serveAs(test.node, func() string { return *c.name.Load() })
			c.start()
			c.addRules()
			c.requestAt(test.node, test.cache)
			c.world.start()
			for _, round := range []string{"at first", "after its return"} {
				c.awaitMode(intercept.Standby)
				c.answersAs(round+", with the cache", "CoreDNS-1.11.3")
				command(t, "ip", "link", "del", nodelocal)
				c.answersAs(round+", without the link", "CoreDNS-1.11.3")
				command(t, "nft", "delete table "+c.table)
				c.answersAs(round+", without the rules", "node-dns 0.9.0")
				c.end()
				c.answersAs(round+", without the cache", "node-dns 0.9.0")
				c.awaitMode(intercept.Translated)
				c.start()
				c.answersAs(round+", with a cache that has no rules yet", "node-dns 0.9.0")
				c.addRules()
			}
			c.request()
			c.awaitEnd(c.helper)
			if got := linkOf(t, test.cache); got != nodelocal {
				t.Errorf("at the end, the cache's address is on %q", got)
			}
			c.answersAs("without the helper", "CoreDNS-1.11.3")
		})
	}
}
