package dnsserver

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func prefixes(texts ...string) []netip.Prefix {
	list := make([]netip.Prefix, 0, len(texts))
	for _, text := range texts {
		list = append(list, netip.MustParsePrefix(text))
	}
	return list
}

func TestNetworks(t *testing.T) {
	some := prefixes("10.128.0.0/14", "10.130.0.0/16", "192.0.2.0/24", "192.0.3.0/24", "198.51.100.7/32", "2001:db8::/32", "fe80::/10", "2001:db9::1/128",
		"::ffff:203.0.113.0/120", "2001:dba::8000:0:0:0/65")
	tests := []struct {
		name     string
		prefixes []netip.Prefix
		in, out  string
	}{
		{"first address of a network", some, "10.128.0.0", "10.127.255.255"},
		{"last address of a network", some, "10.131.255.255", "10.132.0.0"},
		{"address in nested networks", some, "10.130.1.1", "11.130.1.1"},
		{"adjacent networks", some, "192.0.3.0", "192.0.4.0"},
		{"one address", some, "198.51.100.7", "198.51.100.8"},
		{"mapped", some, "::ffff:192.0.2.1", "::ffff:192.0.1.255"},
		{"IPv4-mapped prefix", some, "203.0.113.255", "203.0.114.0"},
		{"IPv6", some, "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff", "2001:dba::1"},
		{"one IPv6 address", some, "2001:db9::1", "2001:db9::2"},
		{"half of an IPv6 link", some, "2001:dba::8000:0:0:1", "2001:dba::7fff:0:0:1"},
		{"zone ID", some, "fe80::1%eth0", "fec0::1%eth0"},
		{"all of IPv4", prefixes("0.0.0.0/0"), "255.255.255.255", "::1"},
		{"all of IPv6", prefixes("::/0"), "ffff::1", "0.0.0.0"},
		{"nothing", nil, "", "192.0.2.1"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			n := NewNetworks(test.prefixes)
			if test.in != "" && !n.Contains(netip.MustParseAddr(test.in)) {
				t.Errorf("does not contain %s", test.in)
			}
			if n.Contains(netip.MustParseAddr(test.out)) {
				t.Errorf("contains %s", test.out)
			}
		})
	}
	if (*Networks)(nil).Contains(netip.MustParseAddr("192.0.2.1")) {
		t.Error("the nil set contains an address")
	}
}

// FuzzNetworks: the set contains an address if and only if one of the prefixes does.
func FuzzNetworks(f *testing.F) {
	f.Add(uint64(1), []byte{10, 128, 3, 4})
	f.Add(uint64(2), []byte("0123456789abcdef"))
	f.Fuzz(func(t *testing.T, seed uint64, octets []byte) {
		a, ok := netip.AddrFromSlice(octets)
		if !ok {
			t.Skip()
		}
		a = a.Unmap()
		random := rand.New(rand.NewPCG(seed, 0))
		var list []netip.Prefix
		for range random.IntN(9) {
			near := a.AsSlice()
			near[random.IntN(len(near))] ^= byte(1 << random.IntN(8))
			other, _ := netip.AddrFromSlice(near)
			list = append(list, netip.PrefixFrom(other.Unmap(), random.IntN(other.Unmap().BitLen()+1)))
		}
		want := slices.ContainsFunc(list, func(p netip.Prefix) bool { return p.Contains(a) })
		if got := NewNetworks(list).Contains(a); got != want {
			t.Errorf("%v in %v: %v", a, list, got)
		}
	})
}

func TestLimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLimiter(10, 24, 56)
		allowed := func(a string) (n int) {
			for range 100 {
				if l.Allow(netip.MustParseAddr(a)) {
					n++
				}
			}
			return n
		}
		if n := allowed("192.0.2.1"); n != 10 {
			t.Errorf("allowed %d of 100 at once, want 10", n)
		}
		if n := allowed("192.0.2.255"); n != 0 {
			t.Errorf("allowed %d for another address of a network that is over its limit", n)
		}
		if n := allowed("2001:db8:0:1::1"); n != 10 {
			t.Errorf("allowed %d for another network", n)
		}
		if n := allowed("2001:db8:0:ff::1"); n != 0 {
			t.Errorf("allowed %d for another link of a site that is over its limit", n)
		}
		time.Sleep(500 * time.Millisecond)
		if n := allowed("192.0.2.1"); n != 5 {
			t.Errorf("allowed %d half a second later, want 5", n)
		}
		time.Sleep(time.Hour)
		if n := allowed("192.0.2.1"); n != 10 {
			t.Errorf("allowed %d an hour later, want 10: unused capacity does not accumulate", n)
		}
	})
}

// TestLimiterSpares: a thousand clients far over their limit do not affect another client.
func TestLimiterSpares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spared := 0
		const tries, hostile = 20, 200
		for range tries {
			l := NewLimiter(10, 24, 56)
			for i := range hostile {
				for range 20 {
					l.Allow(netip.AddrFrom4([4]byte{198, 51, byte(i), 1}))
				}
			}
			if l.Allow(netip.MustParseAddr("192.0.2.1")) {
				spared++
			}
		}
		if spared < tries-1 { // both cells are in use once in 440 tries
			t.Errorf("client allowed in %d of %d tries", spared, tries)
		}
	})
}

// TestCharge: a client that was charged more than one second's worth is over its limit until that
// time has passed, but not longer than maxDebt: 10,000 s were too long. Other clients are not
// affected.
func TestCharge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLimiter(1000, 32, 128)
		one, other := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
		l.Charge(one, 1000)
		if l.Over(one) {
			t.Error("got Over true at exactly the limit")
		}
		l.Charge(one, 500)
		if !l.Over(one) || l.Over(other) {
			t.Errorf("Over is %v, for another client %v", l.Over(one), l.Over(other))
		}
		time.Sleep(499 * time.Millisecond)
		if !l.Over(one) {
			t.Error("got Over false before the time has passed")
		}
		time.Sleep(time.Millisecond)
		if l.Over(one) {
			t.Error("got Over true after the time has passed")
		}
		for range 10 {
			l.Charge(one, 1_000_000)
		}
		time.Sleep(maxDebt - time.Millisecond)
		if !l.Over(one) {
			t.Error("got Over false before maxDebt has passed")
		}
		time.Sleep(time.Millisecond)
		if l.Over(one) {
			t.Error("got Over true after maxDebt has passed")
		}
	})
}

func TestShares(t *testing.T) {
	s := NewShares()
	one, other := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	for i := range 5 {
		if got, want := s.Take(one, 3), i < 3; got != want {
			t.Errorf("Take %d of 3: got %v", i+1, got)
		}
	}
	if !s.Take(other, 1) {
		t.Error("Take of another client: got false")
	}
	s.Give(one)
	if !s.Take(one, 3) || s.Take(one, 3) {
		t.Error("after Give, want exactly one successful Take")
	}
}

func BenchmarkContains(b *testing.B) {
	for _, count := range []int{4, 16, 256} {
		list := make([]netip.Prefix, 0, count)
		for i := range count {
			list = append(list, netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i), 0, 0}), 17))
		}
		n, a := NewNetworks(list), netip.MustParseAddr("10.3.1.1")
		b.Run(fmt.Sprint(count), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if !n.Contains(a) {
					b.Fatal("address not in the set")
				}
			}
		})
	}
}

func BenchmarkShares(b *testing.B) {
	s, a := NewShares(), netip.MustParseAddr("10.3.1.1")
	b.ReportAllocs()
	for b.Loop() {
		s.Take(a, 10)
		s.Give(a)
	}
}

func BenchmarkLimiter(b *testing.B) {
	l, a := NewLimiter(1000, 32, 128), netip.MustParseAddr("10.3.1.1")
	b.ReportAllocs()
	for b.Loop() {
		l.Allow(a)
	}
}
