package policy

import (
	"net/netip"
	"os"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/internal/netstate"
)

func TestOtherNodeDNS(t *testing.T) {
	const there = "node-dns 0.9.0 at 10.0.0.5:53"
	at, second := netip.MustParseAddrPort("10.0.0.5:53"), netip.MustParseAddrPort("10.0.0.6:53")
	free, silent := Identified{at, "", unix.ECONNREFUSED}, Identified{at, "", os.ErrDeadlineExceeded}
	for _, test := range []struct {
		name, before string
		answers      []Identified
		want         string
	}{
		{"nothing to ask", "", nil, ""},
		{"the address is free", "", []Identified{free}, ""},
		{"node-dns answers", "", []Identified{{at, "node-dns 0.9.0", nil}}, there},
		{"it answers at one of two addresses", "", []Identified{{second, "", unix.ECONNREFUSED}, {at, "node-dns 0.9.0", nil}}, there},
		{"dnsmasq answers", "", []Identified{{at, "dnsmasq-2.90", nil}}, ""},
		{"a nameserver without a name", "", []Identified{{at, "", nil}}, ""},
		{"a program does not answer", "", []Identified{silent}, ""},
		{"node-dns restarts", there, []Identified{silent}, there},
		{"node-dns has left", there, []Identified{free}, ""},
		{"dnsmasq replaces node-dns", there, []Identified{{at, "dnsmasq-2.90", nil}}, ""},
		{"node-dns is upgraded", there, []Identified{{at, "node-dns 1.0.0", nil}}, "node-dns 1.0.0 at 10.0.0.5:53"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := OtherNodeDNS(test.before, test.answers); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestMayHaveOther(t *testing.T) {
	at := func(texts ...string) (all []netip.AddrPort) {
		for _, text := range texts {
			all = append(all, netip.AddrPortFrom(netip.MustParseAddr(text), 53))
		}
		return all
	}
	p := &Policy{
		Listen:    at("127.0.0.1", "10.0.0.5", "10.0.0.6", "192.0.2.7", "172.30.0.53"),
		Intercept: []netip.Addr{netip.MustParseAddr("172.30.0.53")},
		Net: netstate.State{Addrs: []netstate.Addr{
			{Interface: "eth0", Addr: netip.MustParseAddr("10.0.0.5")},
			{Interface: "eth0", Addr: netip.MustParseAddr("10.0.0.6")},
			{Interface: "node-dns", Addr: netip.MustParseAddr("172.30.0.53")},
		}},
	}
	if got, want := p.MayHaveOther(at("10.0.0.6")), at("127.0.0.1", "10.0.0.5"); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v: not those that are bound, of other hosts, or intercepted", got, want)
	}
}
