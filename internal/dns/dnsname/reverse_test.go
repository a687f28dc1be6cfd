package dnsname

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReverse(t *testing.T) {
	tests := []struct{ name, addr, want string }{
		{"IPv4", "10.1.2.3", "3.2.1.10.in-addr.arpa."},
		{"IPv4-mapped", "::ffff:10.1.2.3", "3.2.1.10.in-addr.arpa."},
		// Example of RFC 3596 section 2.5.
		{"IPv6", "4321:0:1:2:3:4:567:89ab", "b.a.9.8.7.6.5.0.4.0.0.0.3.0.0.0.2.0.0.0.1.0.0.0.0.0.0.0.1.2.3.4.ip6.arpa."},
		{"zone id", "fe80::1%eth0", "1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.e.f.ip6.arpa."},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := Reverse(netip.MustParseAddr(tt.addr))
			if got.String() != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			if again, err := Parse(got.String()); err != nil || again != got {
				t.Errorf("round trip: %v", err)
			}
		})
	}
	if got := Reverse(netip.Addr{}); !got.IsZero() {
		t.Errorf("the zero Addr gave %q", got)
	}
}

func TestReverseZones(t *testing.T) {
	tests := []struct {
		name, prefix string
		want         []string
	}{
		{"OpenShift 3 services", "172.30.0.0/16", []string{"30.172.in-addr.arpa."}},
		{"address with host bits", "172.30.0.1/16", []string{"30.172.in-addr.arpa."}},
		{"OpenShift 3 pods", "10.128.0.0/14", []string{
			"128.10.in-addr.arpa.", "129.10.in-addr.arpa.", "130.10.in-addr.arpa.", "131.10.in-addr.arpa.",
		}},
		{"kubeadm services", "10.96.0.0/15", []string{"96.10.in-addr.arpa.", "97.10.in-addr.arpa."}},
		{"end of an octet", "10.254.0.0/15", []string{"254.10.in-addr.arpa.", "255.10.in-addr.arpa."}},
		{"one address", "192.0.2.7/32", []string{"7.2.0.192.in-addr.arpa."}},
		{"all of IPv4", "0.0.0.0/0", []string{"in-addr.arpa."}},
		{"IPv4-mapped", "::ffff:10.0.0.0/104", []string{"10.in-addr.arpa."}},
		{"IPv6 services", "fd00:10:96::/112", []string{
			"0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.6.9.0.0.0.1.0.0.0.0.d.f.ip6.arpa.",
		}},
		{"IPv6 between nibbles, low half of an octet", "2001:db8::/30", []string{
			"8.b.d.0.1.0.0.2.ip6.arpa.", "9.b.d.0.1.0.0.2.ip6.arpa.",
			"a.b.d.0.1.0.0.2.ip6.arpa.", "b.b.d.0.1.0.0.2.ip6.arpa.",
		}},
		{"IPv6 between nibbles, high half of an octet", "2001:db8:c000::/35", []string{
			"c.8.b.d.0.1.0.0.2.ip6.arpa.", "d.8.b.d.0.1.0.0.2.ip6.arpa.",
		}},
		{"all of IPv6", "::/0", []string{"ip6.arpa."}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for _, zone := range ReverseZones(netip.MustParsePrefix(tt.prefix)) {
				got = append(got, zone.String())
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
	if got := ReverseZones(netip.Prefix{}); got != nil {
		t.Errorf("the zero Prefix gave %v", got)
	}
}

// addrOf returns an address made from the first 16 bytes, or else from the first four, padded with
// zeros.
func addrOf(octets []byte) netip.Addr {
	if len(octets) >= 16 {
		return netip.AddrFrom16([16]byte(octets))
	}
	var four [4]byte
	copy(four[:], octets)
	return netip.AddrFrom4(four)
}

// FuzzReverseZones: every address has its PTR name in exactly one of the zones if the prefix
// contains it, and in none otherwise. /25 has the most zones. An IPv4-mapped address counts as IPv4
// here too.
func FuzzReverseZones(f *testing.F) {
	f.Add([]byte{10, 0, 0, 0}, byte(14), []byte{10, 3, 255, 255})
	f.Add([]byte{10, 0, 0, 0}, byte(25), []byte{10, 0, 0, 128})
	for _, base := range []string{"2001:db8::", "::ffff:10.0.0.0", "::"} {
		for _, bits := range []byte{0, 29, 90, 96, 107, 128, 129} {
			f.Add(netip.MustParseAddr(base).AsSlice(), bits, netip.MustParseAddr("2001:dbf::1").AsSlice())
			f.Add(netip.MustParseAddr(base).AsSlice(), bits, netip.MustParseAddr("::ffff:10.31.0.1").AsSlice())
		}
	}
	f.Fuzz(func(t *testing.T, base []byte, bits byte, other []byte) {
		prefix, addr := netip.PrefixFrom(addrOf(base), int(bits)), addrOf(other)
		wanted := prefix
		if prefix.Addr().Is4In6() && bits >= 96 {
			wanted = netip.PrefixFrom(prefix.Addr().Unmap(), int(bits)-96)
		}
		zones := ReverseZones(prefix)
		if len(zones) > 128 || wanted.IsValid() != (len(zones) > 0) {
			t.Fatalf("%v has %d zones", prefix, len(zones))
		}
		count := 0
		for _, zone := range zones {
			if again, err := Parse(zone.String()); err != nil || again != zone {
				t.Fatalf("zone %q of %v does not parse back: %v", zone, prefix, err)
			}
			if Reverse(addr).Within(zone) {
				count++
			}
		}
		if want := map[bool]int{true: 1}[wanted.Contains(addr.Unmap())]; count != want {
			t.Fatalf("%v is in %d of the zones of %v, want %d", addr, count, prefix, want)
		}
	})
}
