package netstate

import (
	"context"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/node-dns/node-dns/internal/test/lab"
)

// twoLinks is a machine with eth0 and eth1 and a router on each.
func twoLinks(t *testing.T) *lab.Lab {
	t.Helper()
	l := lab.New(t)
	router := l.Namespace("router")
	l.Veth("eth0", router, "r0")
	l.Veth("eth1", router, "r1")
	return l
}

// TestRead reads from a real kernel. The networks are those of the dispatcher's cases.
func TestRead(t *testing.T) {
	tests := []struct {
		name  string
		setup func(l *lab.Lab)
		want4 string // "INTERFACE GATEWAY SOURCE", "-" for none
		want6 string
	}{
		{"no default route (C092)", func(l *lab.Lab) {
			l.Addr("eth0", "192.168.122.50/24")
		}, "-", "-"},
		{"two default routes (C084)", func(l *lab.Lab) {
			l.Addr("eth0", "192.168.122.50/24")
			l.Addr("eth1", "10.9.0.5/24")
			l.Route("default via 10.9.0.1 dev eth1 metric 200")
			l.Route("default via 192.168.122.1 dev eth0 metric 100")
		}, "eth0 192.168.122.1 192.168.122.50", "-"},
		{"device only (C086)", func(l *lab.Lab) {
			l.Tun("tun0")
			l.Addr("tun0", "192.168.122.50/32")
			l.Route("default dev tun0 scope link")
		}, "tun0 - 192.168.122.50", "-"},
		{"device only, no peer", func(l *lab.Lab) {
			l.Run("ip", "tuntap", "add", "tun1", "mode", "tun")
			l.Run("ip", "link", "set", "tun1", "up")
			l.Addr("tun1", "192.168.122.50/32")
			l.Route("default dev tun1 scope link")
		}, "tun1 - 192.168.122.50", "-"},
		{"point-to-point: the node's end, not the peer's", func(l *lab.Lab) {
			l.Tun("tun0")
			l.Run("ip", "addr", "add", "10.64.0.2", "peer", "10.64.0.1", "dev", "tun0")
			l.Route("default dev tun0")
		}, "tun0 - 10.64.0.2", "-"},
		{"on-link gateway (C088)", func(l *lab.Lab) {
			l.Addr("eth0", "192.168.122.50/32")
			l.Route("default via 10.255.255.1 dev eth0 onlink")
		}, "eth0 10.255.255.1 192.168.122.50", "-"},
		{"secondary addresses (C094)", func(l *lab.Lab) {
			l.Addr("eth0", "172.16.5.5/24", "192.168.122.50/24", "192.168.122.200/24")
			l.Route("default via 192.168.122.1 dev eth0 metric 100")
		}, "eth0 192.168.122.1 192.168.122.50", "-"},
		{"preferred source (C096)", func(l *lab.Lab) {
			l.Addr("eth0", "192.168.122.40/24", "192.168.122.50/24")
			l.Route("default via 192.168.122.1 dev eth0 src 192.168.122.50")
		}, "eth0 192.168.122.1 192.168.122.50", "-"},
		{"preferred source of the connected route (C095)", func(l *lab.Lab) {
			l.Addr("eth0", "192.168.122.40/24", "192.168.122.50/24")
			l.Run("ip", "route", "replace", "192.168.122.0/24", "dev", "eth0", "src", "192.168.122.50")
			l.Route("default via 192.168.122.1 dev eth0")
		}, "eth0 192.168.122.1 192.168.122.50", "-"},
		{"half-default routes (C098)", func(l *lab.Lab) {
			l.Addr("eth0", "192.168.122.50/24")
			l.Addr("eth1", "10.9.0.5/24")
			l.Route("default via 192.168.122.1 dev eth0")
			l.Route("0.0.0.0/1 via 10.9.0.1 dev eth1")
			l.Route("128.0.0.0/1 via 10.9.0.1 dev eth1")
		}, "eth0 192.168.122.1 192.168.122.50", "-"},
		{"unnumbered: the address is on lo", func(l *lab.Lab) {
			l.Addr("lo", "192.0.2.10/32")
			l.Tun("tun0")
			l.Route("default dev tun0")
		}, "tun0 - 192.0.2.10", "-"},
		{"blackhole, unreachable, a type of service, and a TPROXY route", func(l *lab.Lab) {
			l.Addr("eth0", "192.168.122.50/24")
			l.Route("blackhole default metric 5")
			l.Route("unreachable default metric 6")
			l.Route("default tos 0x10 via 192.168.122.9 dev eth0")
			l.Route("local default dev lo table 100")
			l.Route("default via 192.168.122.1 dev eth0 metric 10")
		}, "eth0 192.168.122.1 192.168.122.50", "-"},
		{"policy routing: table of an unconditional rule, not of a mark", func(l *lab.Lab) {
			l.Addr("eth0", "192.168.122.50/24")
			l.Addr("eth1", "10.9.0.5/24")
			l.Route("default via 192.168.122.1 dev eth0")
			l.Route("default via 10.9.0.1 dev eth1 table 300")
			l.Route("default via 10.9.0.2 dev eth1 table 301")
			l.Run("ip", "rule", "add", "fwmark", "7", "table", "300", "pref", "100")
			l.Run("ip", "rule", "add", "not", "fwmark", "8", "table", "300", "pref", "101")
			l.Run("ip", "rule", "add", "from", "192.168.122.50", "table", "300", "pref", "102")
			l.Run("ip", "rule", "add", "table", "301", "suppress_prefixlength", "0", "pref", "103")
			l.Run("ip", "rule", "add", "iif", "eth0", "table", "300", "pref", "104")
		}, "eth0 192.168.122.1 192.168.122.50", "-"},
		{"policy routing: a table before main", func(l *lab.Lab) {
			l.Addr("eth0", "192.168.122.50/24")
			l.Addr("eth1", "10.9.0.5/24")
			l.Route("default via 192.168.122.1 dev eth0")
			l.Route("default via 10.9.0.1 dev eth1 table 1000 metric 900")
			l.Run("ip", "rule", "add", "table", "1000", "pref", "100")
		}, "eth1 10.9.0.1 10.9.0.5", "-"},
		{"policy routing: rule for local traffic", func(l *lab.Lab) {
			l.Addr("eth0", "192.168.122.50/24")
			l.Addr("eth1", "10.9.0.5/24")
			l.Route("default via 192.168.122.1 dev eth0")
			l.Route("default via 10.9.0.1 dev eth1 table 1000")
			l.Run("ip", "rule", "add", "iif", "lo", "table", "1000", "pref", "100")
		}, "eth1 10.9.0.1 10.9.0.5", "-"},
		{"nexthop object", func(l *lab.Lab) {
			l.Addr("eth0", "192.168.122.50/24")
			l.Run("ip", "nexthop", "add", "id", "1", "via", "192.168.122.1", "dev", "eth0")
			l.Route("default nhid 1")
		}, "eth0 192.168.122.1 192.168.122.50", "-"},
		{"IPv6-only, link-local gateway (router advertisement)", func(l *lab.Lab) {
			l.Addr("eth0", "2001:db8:1::50/64")
			l.Route("-6 default via fe80::1 dev eth0 proto ra metric 1024 pref medium")
		}, "-", "eth0 fe80::1%eth0 2001:db8:1::50"},
		{"multipath", func(l *lab.Lab) {
			l.Addr("eth0", "2001:db8:1::50/64")
			l.Addr("eth1", "2001:db8:2::50/64")
			l.Route("-6 default via fe80::1 dev eth0 metric 1024")
			l.Run("ip", "-6", "route", "append", "default", "via", "fe80::2", "dev", "eth1", "metric", "1024")
		}, "-", "eth0 fe80::1%eth0 2001:db8:1::50"},
		{"global unicast before unique local (RFC 6724)", func(l *lab.Lab) {
			l.Addr("eth0", "2001:db8:1::50/64", "fd00:1::50/64")
			l.Route("-6 default via fe80::1 dev eth0")
		}, "-", "eth0 fe80::1%eth0 2001:db8:1::50"},
		{"deprecated address", func(l *lab.Lab) {
			l.Addr("eth0", "2001:db8:1::50/64")
			l.Run("ip", "addr", "add", "2001:db8:2::50/64", "dev", "eth0", "preferred_lft", "0")
			l.Route("-6 default via 2001:db8:2::1 dev eth0")
		}, "-", "eth0 2001:db8:2::1 2001:db8:1::50"},
		{"dual stack", func(l *lab.Lab) {
			l.Addr("eth0", "192.168.122.50/24", "2001:db8:1::50/64")
			l.Route("default via 192.168.122.1 dev eth0")
			l.Route("-6 default via 2001:db8:1::1 dev eth0")
		}, "eth0 192.168.122.1 192.168.122.50", "eth0 2001:db8:1::1 2001:db8:1::50"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := twoLinks(t)
			t.Cleanup(func() { // removes routes that do not disappear with a link
				l.Try("ip", "route", "flush", "type", "blackhole")
				l.Try("ip", "route", "flush", "type", "unreachable")
				l.Try("ip", "route", "flush", "table", "100", "type", "local")
			})
			tt.setup(l)
			s := readSettled(t)
			if got := brief(s.Default4); got != tt.want4 {
				t.Errorf("IPv4: got %q, want %q", got, tt.want4)
			}
			if got := brief(s.Default6); got != tt.want6 {
				t.Errorf("IPv6: got %q, want %q", got, tt.want6)
			}
		})
	}
}

// readSettled reads after duplicate address detection, which takes a moment even if it is turned
// off.
func readSettled(t *testing.T) State {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for {
		s, err := Read(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(s.Addrs, func(a Addr) bool { return a.Tentative }) {
			return s
		}
		time.Sleep(time.Millisecond)
	}
}

func brief(d *DefaultRoute) string {
	if d == nil {
		return "-"
	}
	text := func(a netip.Addr) string {
		if !a.IsValid() {
			return "-"
		}
		return a.String()
	}
	return d.Interface + " " + text(d.Gateway) + " " + text(d.Source)
}

func TestReadAddrs(t *testing.T) {
	l := twoLinks(t)
	l.Addr("eth0", "192.168.122.50/24", "fe80::50/64", "2001:db8:1::50/64")
	l.Run("ip", "addr", "add", "2001:db8:2::50/64", "dev", "eth0", "preferred_lft", "0")
	l.Addr("eth1", "10.9.0.5/24")
	l.Run("ip", "link", "set", "eth1", "down")
	s := readSettled(t)
	got := map[string]Addr{}
	for _, a := range s.Addrs {
		got[a.Addr.String()] = a
	}
	for text, want := range map[string]Addr{
		"127.0.0.1":      {Interface: "lo", Bits: 8, Up: true},
		"192.168.122.50": {Interface: "eth0", Bits: 24, Up: true},
		"fe80::50%eth0":  {Interface: "eth0", Bits: 64, Up: true},
		"2001:db8:1::50": {Interface: "eth0", Bits: 64, Up: true},
		"2001:db8:2::50": {Interface: "eth0", Bits: 64, Up: true, Deprecated: true},
		"10.9.0.5":       {Interface: "eth1", Bits: 24},
	} {
		have, ok := got[text]
		if !ok || have.Index == 0 {
			t.Errorf("%s: not found or without an index in %+v", text, have)
		}
		have.Addr, have.Index = netip.Addr{}, 0
		if diff := cmp.Diff(want, have, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", text, diff)
		}
	}
	if !s.IsLocal(ip("10.9.0.5")) || s.IsLocal(ip("192.168.122.1")) {
		t.Error("IsLocal does not distinguish our addresses from the router's")
	}
}

func TestReadEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Read(ctx); err == nil {
		t.Error("Read succeeded after its context ended")
	}
}

func TestWatch(t *testing.T) {
	leaks(t)
	l := twoLinks(t)
	ctx, cancel := context.WithCancel(t.Context())
	calls := make(chan struct{})
	done := make(chan error, 1)
	go func() {
		done <- Watch(ctx, func() {
			select {
			case calls <- struct{}{}:
			case <-ctx.Done():
			}
		})
	}()
	// settle waits until a call sees the wanted state, because one burst may cause two calls.
	settle := func(what string, ok func(State) bool) {
		t.Helper()
		for {
			select {
			case <-calls:
			case err := <-done:
				t.Fatalf("Watch ended: %v", err)
			case <-time.After(10 * time.Second):
				t.Fatalf("%s: no call", what)
			}
			s, err := Read(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if ok(s) {
				return
			}
		}
	}
	settle("at the start", func(State) bool { return true })
	l.Addr("eth0", "192.168.122.50/24")
	settle("address", func(s State) bool { return s.IsLocal(ip("192.168.122.50")) })
	l.Route("default via 192.168.122.1 dev eth0")
	settle("route", func(s State) bool { return s.Default4 != nil })
	l.Route("default via 192.168.122.2 dev eth0 table 1000")
	l.Run("ip", "rule", "add", "table", "1000", "pref", "100")
	settle("rule", func(s State) bool { return s.Default4 != nil && s.Default4.Table == 1000 })
	l.Run("ip", "link", "set", "eth0", "down")
	settle("link", func(s State) bool { return s.Default4 == nil })
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Watch: %v", err)
	}
}
