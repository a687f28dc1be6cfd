package dnsserver

import (
	"encoding/hex"
	"net/netip"
	"testing"
	"time"

	"github.com/miekg/dns"
)

func octets(t testing.TB, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestCookieVectors uses the test vectors of RFC 9018 appendix A.
func TestCookieVectors(t *testing.T) {
	tests := []struct {
		name, secret, client, from string
		at                         int64
		want                       string
	}{
		{"A.1 learning", "e5e973e5a6b2a43f48e7dc849e37bfcf", "2464c4abcf10c957", "198.51.100.100", 1559731985, "010000005cf79f111f8130c3eee29480"},
		{"A.2 the same client later", "e5e973e5a6b2a43f48e7dc849e37bfcf", "2464c4abcf10c957", "198.51.100.100", 1559734385, "010000005cf7a871d4a564a1442aca77"},
		{"A.4 IPv6, the old secret", "dd3bdf9344b678b185a6f5cb60fca715", "22681ab97d52c298", "2001:db8:220:1:59de:d0f4:8769:82b8", 1559741817, "010000005cf7c57926556bd0934c72f8"},
		{"A.4 IPv6, the new secret", "445536bcd2513298075a5d379663c962", "22681ab97d52c298", "2001:db8:220:1:59de:d0f4:8769:82b8", 1559741961, "010000005cf7c609a6bb79d16625507a"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			secret := cookieSecretOf([16]byte(octets(t, test.secret)))
			client, from, at := octets(t, test.client), netip.MustParseAddr(test.from), time.Unix(test.at, 0)
			got := secret.Append([]byte("before"), client, from, at)
			if hex.EncodeToString(got[6:]) != test.want || string(got[:6]) != "before" {
				t.Errorf("got %x, want %s", got, test.want)
			}
			if mapped := netip.AddrFrom16(from.As16()); !secret.IsValid(got[6:], client, mapped, at) {
				t.Error("not valid")
			}
		})
	}
}

func TestCookieIsValid(t *testing.T) {
	secret, other := newCookieSecret(), newCookieSecret()
	client, from, now := octets(t, "0102030405060708"), netip.MustParseAddr("192.0.2.1"), time.Unix(1<<32-10, 0)
	made := secret.Append(nil, client, from, now)
	tests := []struct {
		name   string
		secret cookieSecret
		server []byte
		client string
		from   string
		after  time.Duration
		want   bool
	}{
		{"now", secret, made, "0102030405060708", "192.0.2.1", 0, true},
		{"one hour later", secret, made, "0102030405060708", "192.0.2.1", time.Hour, true},
		{"more than one hour later", secret, made, "0102030405060708", "192.0.2.1", time.Hour + time.Second, false},
		{"clock 5 minutes behind", secret, made, "0102030405060708", "192.0.2.1", -5 * time.Minute, true},
		{"clock more than 5 minutes behind", secret, made, "0102030405060708", "192.0.2.1", -5*time.Minute - time.Second, false},
		{"another client cookie", secret, made, "0102030405060709", "192.0.2.1", 0, false},
		{"another address", secret, made, "0102030405060708", "192.0.2.2", 0, false},
		{"another secret", other, made, "0102030405060708", "192.0.2.1", 0, false},
		{"shorter", secret, made[:8], "0102030405060708", "192.0.2.1", 0, false},
		{"changed", secret, append([]byte{2}, made[1:]...), "0102030405060708", "192.0.2.1", 0, false},
		{"none", secret, nil, "0102030405060708", "192.0.2.1", 0, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := test.secret.IsValid(test.server, octets(t, test.client), netip.MustParseAddr(test.from), now.Add(test.after))
			if got != test.want {
				t.Errorf("valid: %v", got)
			}
		})
	}
	if secret == other {
		t.Error("two secrets are the same")
	}
}

func TestCookieSize(t *testing.T) {
	for size := range 64 {
		if got, want := isCookieSize(size), size == 8 || size >= 16 && size <= 40; got != want {
			t.Errorf("%d octets: %v", size, got)
		}
	}
}

// TestCookieOfFailure: a cached failure, which has Extended DNS Errors, gets a cookie too (RFC 7873
// section 5.2.3), also behind other responses of a TCP connection. An error's text may look like an
// OPT record without options.
func TestCookieOfFailure(t *testing.T) {
	s := New(Config{Handler: HandlerFunc(nil)})
	for _, text := range []string{"", FailedBefore, "\x00\x00\x29\x04\xd0\x00\x00\x00\x00\x00\x00"} {
		m := new(dns.Msg).SetQuestion("www.example.com.", dns.TypeA)
		m.Response, m.Rcode = true, dns.RcodeServerFailure
		m.Extra = []dns.RR{newOPT(&dns.EDNS0_EDE{InfoCode: 13, ExtraText: text}, &dns.EDNS0_EDE{InfoCode: 22, ExtraText: text})}
		for _, before := range []string{"", "other responses"} {
			wire := append([]byte(before), packed(t, m)...)
			wire = s.addCookie(wire, len(before), octets(t, "0102030405060708"), netip.MustParseAddr("192.0.2.1"))
			got := new(dns.Msg)
			if err := got.Unpack(wire[len(before):]); err != nil {
				t.Fatal(err)
			}
			options := got.IsEdns0().Option
			if len(options) != 3 || options[2].Option() != dns.EDNS0COOKIE || got.Len() != len(wire)-len(before) {
				t.Errorf("%q after %q: %v", text, before, got)
			}
		}
	}
}

func TestCookieAllocates(t *testing.T) {
	secret, client, from, now := newCookieSecret(), make([]byte, clientCookieSize), netip.MustParseAddr("2001:db8::1"), time.Now()
	room := make([]byte, 0, serverCookieSize)
	if n := testing.AllocsPerRun(100, func() { room = secret.Append(room[:0], client, from, now) }); n != 0 {
		t.Errorf("got %v allocations, want 0", n)
	}
}

func BenchmarkAppend(b *testing.B) {
	secret, client, from, now := newCookieSecret(), make([]byte, clientCookieSize), netip.MustParseAddr("192.0.2.1"), time.Now()
	room := make([]byte, 0, serverCookieSize)
	for b.Loop() {
		room = secret.Append(room[:0], client, from, now)
	}
}
