package upstream

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/node-dns/node-dns/internal/dns/nameserver"
)

func TestSelect(t *testing.T) {
	self := func(origin Origin, s nameserver.Server) string {
		switch {
		case s.Addr.Addr() == netip.MustParseAddr("192.168.122.50"):
			return "our own address"
		case s.Addr.Addr() == netip.MustParseAddr("192.168.122.7") && origin == ResolvConf:
			return "our own address once"
		}
		return ""
	}
	tests := []struct {
		name       string
		candidates []Candidate
		want       Selection
		refused    []string // "origin text: reason"
	}{
		{name: "no candidates"},
		{
			name: "first candidate wins",
			candidates: []Candidate{
				{Origin: NetworkManager, Detail: "eth0", Set: set("10.0.0.3 10.0.0.2 10.0.0.3")},
				{Origin: LastGood, Set: set("10.0.0.9 192.168.122.50"), Invalid: []string{"not looked at"}},
			},
			want: Selection{
				Set: set("10.0.0.3 10.0.0.2"), Origin: NetworkManager, Detail: "eth0",
				Lost: []Candidate{{Origin: LastGood, Set: set("10.0.0.9")}},
			},
		},
		{
			name: "equal or unusable candidates are not reported as lost",
			candidates: []Candidate{
				{Origin: NetworkManager, Set: set("10.0.0.3 10.0.0.2")},
				{Origin: ResolvConf, Set: set("192.168.122.7 192.168.122.50")},
				{Origin: LastGood, Set: set("10.0.0.2 10.0.0.3 192.168.122.50")},
			},
			want: Selection{Set: set("10.0.0.3 10.0.0.2"), Origin: NetworkManager},
		},
		{
			name: "empty candidate does not win",
			candidates: []Candidate{
				{Origin: NetworkManager},
				{Origin: NetworkManagerFile, Set: set("10.0.0.2")},
			},
			want: Selection{Set: set("10.0.0.2"), Origin: NetworkManagerFile},
		},
		{
			// DHCP offers the node itself.
			name: "our own address is refused",
			candidates: []Candidate{
				{Origin: Event, Detail: "eth0", Set: set("192.168.122.50 192.168.122.50")},
				{Origin: ResolvConf, Set: set("192.168.122.50 10.0.0.2")},
			},
			want: Selection{Set: set("10.0.0.2"), Origin: ResolvConf},
			refused: []string{
				"event eth0 192.168.122.50: our own address",
				"/etc/resolv.conf 192.168.122.50: our own address",
			},
		},
		{
			name: "address refused from one origin, accepted from another",
			candidates: []Candidate{
				{Origin: ResolvConf, Set: set("192.168.122.7")},
				{Origin: LastGood, Set: set("192.168.122.7 10.0.0.2")},
			},
			want:    Selection{Set: set("192.168.122.7 10.0.0.2"), Origin: LastGood},
			refused: []string{"/etc/resolv.conf 192.168.122.7: our own address once"},
		},
		{
			// IP4_NAMESERVERS contains garbage.
			name: "invalid strings are reported",
			candidates: []Candidate{
				{Origin: Event, Invalid: []string{"garbage", "*", "garbage"}},
				{Origin: LastGood, Set: set("10.0.0.2")},
			},
			want:    Selection{Set: set("10.0.0.2"), Origin: LastGood},
			refused: []string{"event garbage: not a nameserver's address", "event *: not a nameserver's address"},
		},
		{
			name: "addresses that no host can have",
			candidates: []Candidate{{Origin: ResolvConf, Set: Set{Servers: append(
				servers("0.0.0.0 :: 224.0.0.251 ff02::fb%eth0 255.255.255.255 dns+tls://0.0.0.0"),
				nameserver.Server{Addr: netip.MustParseAddrPort("10.0.0.2:0")},
				nameserver.Server{},
				nameserver.Server{Addr: netip.MustParseAddrPort("10.0.0.2:53"), Name: "TLS only"},
			)}}},
			refused: []string{
				"/etc/resolv.conf 0.0.0.0: unspecified address",
				"/etc/resolv.conf ::: unspecified address",
				"/etc/resolv.conf 224.0.0.251: multicast address",
				"/etc/resolv.conf ff02::fb%eth0: multicast address",
				"/etc/resolv.conf 255.255.255.255: broadcast address",
				"/etc/resolv.conf dns+tls://0.0.0.0: unspecified address",
				"/etc/resolv.conf 10.0.0.2:0: port 0",
				"/etc/resolv.conf : no address",
				"/etc/resolv.conf 10.0.0.2: malformed",
			},
		},
		{
			name: "routes of a candidate without servers are kept",
			candidates: []Candidate{
				{Origin: NetworkManager, Set: set("", "vpn.example: 10.8.0.1")},
				{Origin: LastGood, Set: set("10.0.0.2", "old.example: 10.8.0.9")},
			},
			want: Selection{Set: set("10.0.0.2", "vpn.example: 10.8.0.1"), Origin: LastGood},
		},
		{
			name: "routes of the winner",
			candidates: []Candidate{
				{Origin: NetworkManager, Set: set("10.0.0.2", "b.example: 10.8.0.1 192.168.122.50", "a.example: 192.168.122.50")},
				{Origin: LastGood, Set: set("10.0.0.9", "old.example: 10.8.0.9")},
			},
			want: Selection{
				Set: set("10.0.0.2", "b.example: 10.8.0.1"), Origin: NetworkManager,
				Lost: []Candidate{{Origin: LastGood, Set: set("10.0.0.9")}},
			},
			refused: []string{
				"NetworkManager 192.168.122.50: our own address",
			},
		},
		{
			name: "winner without routes takes none from later candidates",
			candidates: []Candidate{
				{Origin: NetworkManager, Set: set("10.0.0.2")},
				{Origin: LastGood, Set: set("10.0.0.9", "old.example: 10.8.0.9")},
			},
			want: Selection{Set: set("10.0.0.2"), Origin: NetworkManager, Lost: []Candidate{{Origin: LastGood, Set: set("10.0.0.9")}}},
		},
		{
			name:       "routes alone do not win",
			candidates: []Candidate{{Origin: NetworkManager, Set: set("", "vpn.example: 10.8.0.1")}},
		},
		{
			name:       "route for the root",
			candidates: []Candidate{{Origin: NetworkManager, Set: set("", ".: 10.8.0.1")}},
			want:       Selection{Set: set("10.8.0.1"), Origin: NetworkManager},
		},
		{
			name:       "TLS alone wins",
			candidates: []Candidate{{Origin: NetworkManager, Set: set("dns+tls://1.1.1.1#n")}},
			want:       Selection{Set: set("dns+tls://1.1.1.1#n"), Origin: NetworkManager},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := Select(tt.candidates, self)
			if diff := cmp.Diff(tt.want, got, asText, cmpopts.IgnoreFields(Selection{}, "Refused")); diff != "" {
				t.Error(diff)
			}
			var refused []string
			for _, r := range got.Refused {
				refused = append(refused, fmt.Sprintf("%s %s: %s", r.From(), r.Text, r.Reason))
			}
			if diff := cmp.Diff(tt.refused, refused); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestSelectBounds(t *testing.T) {
	var many Set
	var invalid []string
	addr := netip.MustParseAddr("10.0.0.0")
	for i := range 1000 {
		addr = addr.Next()
		many.Servers = append(many.Servers, nameserver.FromAddr(addr))
		many.Routes = append(many.Routes, set("", fmt.Sprintf("d%04d.example: 10.9.0.1", i)).Routes...)
		invalid = append(invalid, fmt.Sprint("x", i))
	}
	got := Select([]Candidate{{Origin: Event, Set: many}}, nil)
	if len(got.Set.Servers) != MaxServers || len(got.Set.Routes) != maxRouted || len(got.Refused) != maxRefused {
		t.Errorf("got %d servers, %d routes, %d refused", len(got.Set.Servers), len(got.Set.Routes), len(got.Refused))
	}
	if reason := got.Refused[0].Reason; reason != "more than 64 nameservers" {
		t.Errorf("got refusal reason %q", reason)
	}
	if want := many.Servers[:MaxServers]; !cmp.Equal(got.Set.Servers, want, asText) {
		t.Errorf("got %v, want the first ones", got.Set.Servers)
	}
	if got := Select([]Candidate{{Origin: Event, Invalid: invalid}}, nil); len(got.Refused) != maxRefused {
		t.Errorf("got %d refused", len(got.Refused))
	}
}
