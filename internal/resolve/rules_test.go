package resolve

import (
	"context"
	"net/netip"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dnsmasqconf"
	"github.com/node-dns/node-dns/internal/test/dnstest"
)

// TestIsPrivate checks the names that bogus-priv keeps from the upstreams against the behavior of
// dnsmasq 2.90.
func TestIsPrivate(t *testing.T) {
	for text, want := range map[string]bool{
		"9.9.168.192.in-addr.arpa": true, "1.0.0.10.in-addr.arpa": true, "1.0.0.127.in-addr.arpa": true, "1.0.16.172.in-addr.arpa": true,
		"1.0.31.172.in-addr.arpa": true, "1.0.32.172.in-addr.arpa": false, "1.0.64.100.in-addr.arpa": false, "1.2.0.192.in-addr.arpa": true,
		"8.8.8.8.in-addr.arpa": false, "1.1.254.169.in-addr.arpa": true, "0.0.0.0.in-addr.arpa": true, "255.255.255.255.in-addr.arpa": true,
		"254.255.255.255.in-addr.arpa": false, "1.100.51.198.in-addr.arpa": true, "1.113.0.203.in-addr.arpa": true,
		"10.in-addr.arpa": true, "1.10.in-addr.arpa": true, "in-addr.arpa": false, "1.0.0.192.in-addr.arpa": false,
		"b._dns-sd._udp.0.0.0.10.in-addr.arpa": false, "10.0.0.1.example": false,
		dnsname.Reverse(netip.MustParseAddr("fe80::1")).String():     true,
		dnsname.Reverse(netip.MustParseAddr("fd00::1")).String():     true,
		dnsname.Reverse(netip.MustParseAddr("fc00::1")).String():     false,
		dnsname.Reverse(netip.MustParseAddr("2001:db8::1")).String(): true,
		dnsname.Reverse(netip.MustParseAddr("::1")).String():         true,
		dnsname.Reverse(netip.MustParseAddr("2606::1")).String():     false,
	} {
		if got := isPrivate(dnsname.MustParse(text)); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}

// TestFilterAnswers: signatures are removed with the records that they cover, other types stay, and
// existing explanations are kept.
func TestFilterAnswers(t *testing.T) {
	const records = "a.example. 0 IN A 192.0.2.1\na.example. 0 IN AAAA 2001:db8::1\na.example. 0 IN TXT x\n" +
		"a.example. 0 IN RRSIG A 8 2 0 20300101000000 20200101000000 1 example. AA==\na.example. 0 IN RRSIG TXT 8 2 0 20300101000000 20200101000000 1 example. AA==\n"
	message := func() *dns.Msg {
		m := new(dns.Msg).SetEdns0(1232, true)
		m.IsEdns0().Option = []dns.EDNS0{&dns.EDNS0_EDE{InfoCode: dns.ExtendedErrorCodeStaleAnswer}}
		parser := dns.NewZoneParser(strings.NewReader(records), "", "")
		for rr, ok := parser.Next(); ok; rr, ok = parser.Next() {
			m.Answer = append(m.Answer, rr)
		}
		if parser.Err() != nil {
			t.Fatal(parser.Err())
		}
		return m
	}
	for _, tt := range []struct {
		name          string
		options       dnsmasqconf.Options
		records, told int
	}{
		{"none", dnsmasqconf.Options{FilterWin2K: true}, 5, 1},
		{"A", dnsmasqconf.Options{FilterA: true}, 3, 2},
		{"AAAA", dnsmasqconf.Options{FilterAAAA: true}, 4, 2},
		{"both", dnsmasqconf.Options{FilterA: true, FilterAAAA: true}, 2, 2},
	} {
		m := message()
		filterAnswers(m, tt.options)
		if len(m.Answer) != tt.records || len(m.IsEdns0().Option) != tt.told {
			t.Errorf("%s: %v", tt.name, m)
		}
	}
}

// BenchmarkFilters measures a cached answer through the list, with the filters off and on.
func BenchmarkFilters(b *testing.B) {
	site := dnstest.NewServer(b, siteRecords)
	for _, row := range []struct{ name, dnsmasq string }{{"off", ""}, {"on", "filter-AAAA\nfilterwin2k\nbogus-priv\n"}} {
		b.Run(row.name, func(b *testing.B) {
			r := stillWith(b, "upstreams: [\""+site.Addr().String()+"\"]\n", row.dnsmasq, bazaar())
			q := clientQuery("www.example.com.", "192.0.2.99")
			b.ReportAllocs()
			for b.Loop() {
				if m, err := r.ServeDNS(context.Background(), q); err != nil || len(m.Answer) != 1 {
					b.Fatal(m, err)
				}
			}
		})
	}
}
