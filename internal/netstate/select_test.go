package netstate

import (
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"
)

func ip(s string) netip.Addr { return netip.MustParseAddr(s) }

const (
	lo   = 1
	eth0 = 2
	eth1 = 3
	tun0 = 4
	down = 5
)

func testLinks() map[int]link {
	return map[int]link{
		lo:   {name: "lo", up: true, loopback: true},
		eth0: {name: "eth0", up: true},
		eth1: {name: "eth1", up: true, group: 7},
		tun0: {name: "tun0", up: true},
		down: {name: "down"},
	}
}

func via(index int, gateway string) hop { return hop{index: index, gateway: ip(gateway)} }

func inMain(metric uint32, hops ...hop) route {
	return route{table: unix.RT_TABLE_MAIN, metric: metric, hops: hops}
}

func inTable(table, metric uint32, hops ...hop) route {
	return route{table: table, metric: metric, hops: hops}
}

func to(priority, table uint32) rule {
	return rule{priority: priority, action: unix.FR_ACT_TO_TBL, table: table}
}

func TestChooseRoute(t *testing.T) {
	noCarrier := hop{index: eth0, gateway: ip("192.168.122.1"), linkdown: true}
	dead := hop{index: eth0, gateway: ip("192.168.122.1"), dead: true}
	tests := []struct {
		name   string
		rules  []rule // nil means the kernel's own
		routes []route
		want   string // gateway, or "dev NAME", or "" for none
	}{
		{"none", nil, nil, ""},
		{"one", nil, []route{inMain(0, via(eth0, "192.168.122.1"))}, "192.168.122.1"},
		// openshift-ansible #10414: 99-origin-dns.sh took the last line of `ip route`, which has
		// the highest metric.
		{"lowest metric", nil, []route{inMain(200, via(eth1, "10.9.0.1")), inMain(100, via(eth0, "192.168.122.1"))}, "192.168.122.1"},
		{"metric 0 is the lowest", nil, []route{inMain(100, via(eth1, "10.9.0.1")), inMain(0, via(eth0, "192.168.122.1"))}, "192.168.122.1"},
		{"equal metrics: the kernel's order", nil, []route{inMain(100, via(eth1, "10.9.0.1")), inMain(100, via(eth0, "192.168.122.1"))}, "10.9.0.1"},
		{"equal metrics: router preference high before medium", nil, []route{
			{table: unix.RT_TABLE_MAIN, metric: 1024, hops: []hop{via(eth0, "fe80::1")}},
			{table: unix.RT_TABLE_MAIN, metric: 1024, pref: 1, hops: []hop{via(eth0, "fe80::2")}},
		}, "fe80::2"},
		{"equal metrics: router preference low is last", nil, []route{
			{table: unix.RT_TABLE_MAIN, metric: 1024, pref: 3, hops: []hop{via(eth0, "fe80::1")}},
			{table: unix.RT_TABLE_MAIN, metric: 1024, hops: []hop{via(eth0, "fe80::2")}},
		}, "fe80::2"},
		{"no gateway", nil, []route{inMain(0, hop{index: tun0})}, "dev tun0"},
		{"multipath: the first next hop", nil, []route{inMain(0, via(eth1, "10.9.0.1"), via(eth0, "192.168.122.1"))}, "10.9.0.1"},
		{"multipath: first live next hop", nil, []route{inMain(0, dead, via(eth1, "10.9.0.1"))}, "10.9.0.1"},
		{"a dead route does not count", nil, []route{inMain(0, dead)}, ""},
		{"a route of an interface that is down does not count", nil, []route{inMain(0, via(down, "10.0.0.1"))}, ""},
		{"a route of a removed interface does not count", nil, []route{inMain(0, via(99, "10.0.0.1"))}, ""},
		{"a loopback route does not count", nil, []route{inMain(0, hop{index: lo})}, ""},
		{"no carrier: the next one", nil, []route{inMain(100, noCarrier), inMain(200, via(eth1, "10.9.0.1"))}, "10.9.0.1"},
		{"no carrier anywhere: still the node's route", nil, []route{inMain(100, noCarrier)}, "192.168.122.1"},
		{
			"no carrier in main: another table",
			[]rule{to(1, 254), to(2, 200)},
			[]route{inMain(0, noCarrier), inTable(200, 0, via(eth1, "10.9.0.1"))},
			"10.9.0.1",
		},

		{"a table that no rule reaches", nil, []route{inTable(200, 0, via(eth1, "10.9.0.1"))}, ""},
		{"table default, after main", nil, []route{inTable(unix.RT_TABLE_DEFAULT, 0, via(eth1, "10.9.0.1"))}, "10.9.0.1"},
		{
			"a table before main wins regardless of its metric",
			[]rule{to(100, 200), to(32766, 254)},
			[]route{inMain(0, via(eth0, "192.168.122.1")), inTable(200, 900, via(eth1, "10.9.0.1"))},
			"10.9.0.1",
		},
		{
			"a table before main without a default route",
			[]rule{to(100, 200), to(32766, 254)},
			[]route{inMain(0, via(eth0, "192.168.122.1"))},
			"192.168.122.1",
		},
		{
			"conditional rule",
			[]rule{{action: unix.FR_ACT_TO_TBL, table: 200, conditional: true}, to(32766, 254)},
			[]route{inMain(0, via(eth0, "192.168.122.1")), inTable(200, 0, via(eth1, "10.9.0.1"))},
			"192.168.122.1",
		},
		{"wg-quick: main suppressed, table 51820 for unmarked packets, then main", []rule{
			{priority: 32764, action: unix.FR_ACT_TO_TBL, table: 254, noDefaults: true},
			{priority: 32765, action: unix.FR_ACT_TO_TBL, table: 51820, conditional: true},
			to(32766, 254),
		}, []route{inTable(51820, 0, hop{index: tun0}), inMain(100, via(eth0, "192.168.122.1"))}, "192.168.122.1"},
		{
			"suppress_ifgroup",
			[]rule{{action: unix.FR_ACT_TO_TBL, table: 254, withoutGroup: 7, hasGroup: true}},
			[]route{inMain(0, via(eth1, "10.9.0.1")), inMain(100, via(eth0, "192.168.122.1"))},
			"192.168.122.1",
		},
		{
			"unconditional unreachable hides later rules",
			[]rule{{action: unix.FR_ACT_UNREACHABLE}, to(32766, 254)},
			[]route{inMain(0, via(eth0, "192.168.122.1"))},
			"",
		},
		{
			"conditional blackhole does not",
			[]rule{{action: unix.FR_ACT_BLACKHOLE, conditional: true}, to(32766, 254)},
			[]route{inMain(0, via(eth0, "192.168.122.1"))},
			"192.168.122.1",
		},
		{
			"goto jumps over a table",
			[]rule{{priority: 1, action: unix.FR_ACT_GOTO, target: 32766}, to(2, 200), to(32766, 254)},
			[]route{inTable(200, 0, via(eth1, "10.9.0.1")), inMain(0, via(eth0, "192.168.122.1"))},
			"192.168.122.1",
		},
		{
			"goto nowhere",
			[]rule{{priority: 1, action: unix.FR_ACT_GOTO, target: 5}, to(32766, 254)},
			[]route{inMain(0, via(eth0, "192.168.122.1"))},
			"192.168.122.1",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			rules := tt.rules
			if rules == nil {
				rules = plainRules()
			}
			f := facts{
				links:  testLinks(),
				rules:  map[family][]rule{inet: rules},
				routes: map[family][]route{inet: tt.routes},
			}
			c, ok := f.chooseRoute(inet)
			got := ""
			switch {
			case ok && c.gateway.IsValid():
				got = c.gateway.String()
			case ok:
				got = "dev " + f.links[c.index].name
			}
			if got != tt.want {
				t.Errorf("default route: got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestSourceFor(t *testing.T) {
	on := func(index int, s string) address { return address{ip: ip(s), index: index} }
	with := func(a address, change func(*address)) address { change(&a); return a }
	second := func(a *address) { a.second = true }
	old := func(a *address) { a.deprecated = true }
	tentative := func(a *address) { a.tentative = true }
	duplicate := func(a *address) { a.dadFailed = true }
	linkScope := func(a *address) { a.limited = true }

	tests := []struct {
		name   string
		fam    family
		c      chosen
		addrs  []address
		kernel string // the kernel's source address; "" if it refuses
		want   string
	}{
		{
			"preferred source of the route", inet,
			chosen{route{source: ip("192.168.122.50")}, via(eth0, "192.168.122.1")},
			[]address{on(eth0, "192.168.122.40"), on(eth0, "192.168.122.50")},
			"192.168.122.40", "192.168.122.50",
		},
		{
			"the kernel's choice, not the first address", inet,
			chosen{hop: via(eth0, "192.168.122.1")},
			[]address{on(eth0, "172.16.5.5"), on(eth0, "192.168.122.50")},
			"192.168.122.50", "192.168.122.50",
		},
		{
			"kernel lookup fails: first address", inet,
			chosen{hop: via(eth0, "192.168.122.1")},
			[]address{on(eth1, "10.9.0.5"), on(eth0, "192.168.122.50"), on(eth0, "192.168.122.51")},
			"", "192.168.122.50",
		},
		{
			"the kernel's choice is not a local address", inet,
			chosen{hop: via(eth0, "192.168.122.1")},
			[]address{on(eth0, "192.168.122.50")},
			"192.0.2.7", "192.168.122.50",
		},
		{
			"primary before secondary", inet,
			chosen{hop: via(eth0, "192.168.122.1")},
			[]address{with(on(eth0, "192.168.122.51"), second), on(eth0, "192.168.122.50")},
			"", "192.168.122.50",
		},
		{
			"a secondary address that the connected route prefers", inet,
			chosen{hop: via(eth0, "192.168.122.1")},
			[]address{on(eth0, "192.168.122.40"), with(on(eth0, "192.168.122.50"), second)},
			"192.168.122.50", "192.168.122.50",
		},
		{
			"scope link comes last", inet,
			chosen{hop: via(eth0, "192.168.122.1")},
			[]address{with(on(eth0, "192.168.122.51"), linkScope), on(eth0, "192.168.122.50")},
			"192.168.122.51", "192.168.122.50",
		},
		{"IPv4 link-local", inet, chosen{hop: via(eth0, "192.168.122.1")}, []address{on(eth0, "169.254.3.4")}, "169.254.3.4", ""},
		{
			"unnumbered: an address on lo", inet,
			chosen{hop: hop{index: tun0}},
			[]address{on(lo, "127.0.0.1"), on(eth0, "10.9.0.5"), on(lo, "192.0.2.10")},
			"", "192.0.2.10",
		},
		{
			"unnumbered: an address elsewhere", inet,
			chosen{hop: hop{index: tun0}},
			[]address{on(lo, "127.0.0.1"), on(down, "10.1.1.1"), on(eth1, "10.9.0.5")},
			"", "10.9.0.5",
		},
		{
			"RFC 5549: an IPv4 source with an IPv6 gateway", inet,
			chosen{hop: via(eth0, "2001:db8:1::1")},
			[]address{on(eth0, "2001:db8:1::50"), on(eth0, "192.168.122.50")},
			"192.168.122.50", "192.168.122.50",
		},
		{"no address at all", inet, chosen{hop: via(eth0, "192.168.122.1")}, []address{on(lo, "127.0.0.1"), on(eth0, "fe80::1")}, "", ""},

		{
			"IPv6 by router advertisement", inet6,
			chosen{hop: via(eth0, "fe80::1")},
			[]address{on(eth0, "fe80::50"), on(eth0, "2001:db8:1::50")},
			"2001:db8:1::50", "2001:db8:1::50",
		},
		{"IPv6 link-local", inet6, chosen{hop: via(eth0, "fe80::1")}, []address{on(eth0, "fe80::50")}, "fe80::50", ""},
		{
			"privacy address preferred by the kernel", inet6,
			chosen{hop: via(eth0, "fe80::1")},
			[]address{with(on(eth0, "2001:db8:1::aaaa"), second), on(eth0, "2001:db8:1::50")},
			"2001:db8:1::aaaa", "2001:db8:1::50",
		},
		{
			"only a privacy address", inet6,
			chosen{hop: via(eth0, "fe80::1")},
			[]address{with(on(eth0, "2001:db8:1::aaaa"), second)},
			"2001:db8:1::aaaa", "2001:db8:1::aaaa",
		},
		{
			"deprecated after current", inet6,
			chosen{hop: via(eth0, "fe80::1")},
			[]address{with(on(eth0, "2001:db8:9::50"), old), on(eth0, "2001:db8:1::50")},
			"", "2001:db8:1::50",
		},
		{
			"tentative before an address of another interface", inet6,
			chosen{hop: via(eth0, "fe80::1")},
			[]address{on(eth1, "fd00::1"), with(on(eth0, "2001:db8:1::50"), tentative)},
			"fd00::1", "2001:db8:1::50",
		},
		{
			"unnumbered: the kernel's choice on another interface", inet6,
			chosen{hop: hop{index: tun0}},
			[]address{on(eth0, "fd00::1"), on(eth1, "2001:db8:1::50")},
			"2001:db8:1::50", "2001:db8:1::50",
		},
		{
			"duplicate address", inet6,
			chosen{hop: via(eth0, "fe80::1")},
			[]address{with(on(eth0, "2001:db8:1::50"), duplicate)},
			"", "",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := facts{links: testLinks(), addrs: tt.addrs}
			kernel := func(netip.Addr, int) netip.Addr {
				a, _ := netip.ParseAddr(tt.kernel)
				return a
			}
			got := f.sourceFor(tt.fam, tt.c, kernel)
			want, _ := netip.ParseAddr(tt.want)
			if got != want {
				t.Errorf("source: got %v, want %v", got, want)
			}
		})
	}
}

func TestProbe(t *testing.T) {
	tests := []struct {
		name    string
		fam     family
		gateway netip.Addr
		want    string
	}{
		{"IPv4 gateway", inet, ip("192.168.122.1"), "192.168.122.1"},
		{"IPv4 link-local gateway, as on cloud machines", inet, ip("169.254.1.1"), "169.254.1.1"},
		{"IPv4 without gateway", inet, netip.Addr{}, "192.0.2.1"},
		{"IPv4 via IPv6", inet, ip("2001:db8::1"), "192.0.2.1"},
		{"IPv6 gateway", inet6, ip("2001:db8::1"), "2001:db8::1"},
		{"IPv6 link-local gateway", inet6, ip("fe80::1"), "2000::1"},
		{"IPv6 without gateway", inet6, netip.Addr{}, "2000::1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := probe(tt.fam, tt.gateway); got != ip(tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}
