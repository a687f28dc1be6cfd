package view

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
	"github.com/node-dns/node-dns/internal/test/golden"
)

// TestLogLines compares the lines with those of dnsmasq 2.90 with --log-queries for the same
// queries and answers. The name of the row mentions deviations.
func TestLogLines(t *testing.T) {
	upstream := nameserver.FromAddr(netip.MustParseAddr("10.0.0.2"))
	odd := nameserver.Server{Addr: netip.MustParseAddrPort("[2001:db8::2]:5353")}
	var many []string
	for i := range maxRecords + 5 {
		many = append(many, fmt.Sprintf("many.example. 5 A 192.0.2.%d", i))
	}
	var text strings.Builder
	for _, test := range []struct {
		row, name string
		qtype     uint16
		rcode     int
		records   []string
		aa        bool
		seen      dnsserver.Seen
	}{
		{row: "forwarded", name: "www.example.", qtype: dns.TypeA, records: []string{"www.example. 5 A 192.0.2.1", "www.example. 5 A 192.0.2.2"}, seen: dnsserver.Seen{Outcome: dnsserver.ByUpstream, Server: upstream}},
		{row: "another port", name: "www.example.", qtype: dns.TypeAAAA, records: []string{"www.example. 5 AAAA 2001:db8::1"}, seen: dnsserver.Seen{Outcome: dnsserver.ByUpstream, Server: odd}},
		{row: "an alias", name: "alias.example.", qtype: dns.TypeA, records: []string{"alias.example. 5 CNAME www.example.", "www.example. 5 A 192.0.2.1"}, seen: dnsserver.Seen{Outcome: dnsserver.ByUpstream, Server: upstream}},
		{row: "other types", name: "example.", qtype: dns.TypeMX, records: []string{"example. 5 MX 1 mx.example."}, seen: dnsserver.Seen{Outcome: dnsserver.ByUpstream, Server: upstream}},
		{row: "a text", name: "txt.example.", qtype: dns.TypeTXT, records: []string{`txt.example. 5 TXT "hello" "a\027[2Jb"`}, seen: dnsserver.Seen{Outcome: dnsserver.ByMemory}},
		{row: "an address", name: "1.2.0.192.in-addr.arpa.", qtype: dns.TypePTR, records: []string{"1.2.0.192.in-addr.arpa. 5 PTR www.example."}, seen: dnsserver.Seen{Outcome: dnsserver.ByUpstream, Server: upstream}},
		{row: "an IPv6 address", name: "1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa.", qtype: dns.TypePTR, records: []string{"1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa. 5 PTR www.example."}, seen: dnsserver.Seen{Outcome: dnsserver.ByMemory}},
		{row: "no such address", name: "999.2.0.192.in-addr.arpa.", qtype: dns.TypePTR, records: []string{"999.2.0.192.in-addr.arpa. 5 PTR www.example."}, seen: dnsserver.Seen{Outcome: dnsserver.ByMemory}},
		{row: "no such name", name: "nope.example.", qtype: dns.TypeA, rcode: dns.RcodeNameError, seen: dnsserver.Seen{Outcome: dnsserver.ByUpstream, Server: upstream}},
		{row: "no such record", name: "www.example.", qtype: dns.TypeAAAA, seen: dnsserver.Seen{Outcome: dnsserver.ByUpstream, Server: upstream}},
		{row: "nor for IPv4", name: "six.example.", qtype: dns.TypeA, seen: dnsserver.Seen{Outcome: dnsserver.ByMemory}},
		{row: "nor of another type", name: "www.example.", qtype: dns.TypeHTTPS, seen: dnsserver.Seen{Outcome: dnsserver.ByWire}},
		{row: "on the wire", name: "www.example.", qtype: dns.TypeA, records: []string{"www.example. 5 A 192.0.2.1"}, seen: dnsserver.Seen{Outcome: dnsserver.ByWire}},
		{row: "expired", name: "www.example.", qtype: dns.TypeA, records: []string{"www.example. 5 A 192.0.2.1"}, seen: dnsserver.Seen{Outcome: dnsserver.ByStale}},
		{row: "the cluster's", name: "web.shop.svc.cluster.local.", qtype: dns.TypeA, records: []string{"web.shop.svc.cluster.local. 5 A 172.30.0.1"}, aa: true, seen: dnsserver.Seen{Outcome: dnsserver.ByWire}},
		{row: "our own", name: "localhost.", qtype: dns.TypeA, records: []string{"localhost. 5 A 127.0.0.1"}, aa: true, seen: dnsserver.Seen{Outcome: dnsserver.ByHandler}},
		{row: "an upstream's SERVFAIL", name: "www.example.", qtype: dns.TypeA, rcode: dns.RcodeServerFailure, seen: dnsserver.Seen{Outcome: dnsserver.ByUpstream, Server: upstream}},
		{row: "no answer, of which dnsmasq says (EDE: network error)", name: "www.example.", qtype: dns.TypeA, rcode: dns.RcodeServerFailure, seen: dnsserver.Seen{Outcome: dnsserver.ByNobody, Why: "no response from 10.0.0.2 (timed out)"}},
		{row: "a failure of before", name: "www.example.", qtype: dns.TypeA, rcode: dns.RcodeServerFailure, seen: dnsserver.Seen{Outcome: dnsserver.ByFailure, Why: dnsserver.FailedBefore}},
		{row: "a failure of before, on the wire", name: "www.example.", qtype: dns.TypeA, rcode: dns.RcodeServerFailure, seen: dnsserver.Seen{Outcome: dnsserver.ByWire}},
		{row: "refused", name: "www.example.", qtype: dns.TypeA, rcode: dns.RcodeRefused, seen: dnsserver.Seen{Outcome: dnsserver.ByServer, Why: "queries from this network are not allowed"}},
		{row: "the root", name: ".", qtype: dns.TypeNS, records: []string{". 5 NS a.root-servers.net."}, seen: dnsserver.Seen{Outcome: dnsserver.ByMemory}},
		{row: "a name of odd octets, which dnsmasq calls <name unprintable>", name: `a\010b\027\200.example.`, qtype: dns.TypeA, rcode: dns.RcodeNameError, seen: dnsserver.Seen{Outcome: dnsserver.ByUpstream, Server: upstream}},
		{row: "more than is of use", name: "many.example.", qtype: dns.TypeA, records: many, seen: dnsserver.Seen{Outcome: dnsserver.ByMemory}},
	} {
		seen := test.seen
		asked := seenOf(t, test.name, test.qtype, "10.128.0.14", test.rcode)
		seen.Query, seen.Client = asked.Query, asked.Client
		var m dns.Msg
		if err := m.Unpack(asked.Response); err != nil {
			t.Fatal(err)
		}
		m.Authoritative = test.aa
		for _, record := range test.records {
			rr, err := dns.NewRR(record)
			if err != nil {
				t.Fatal(err)
			}
			m.Answer = append(m.Answer, rr)
		}
		var err error
		if seen.Response, err = m.Pack(); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&text, "# %s\n%s\n", test.row, strings.Join(logLines(ofQuery(time.Time{}, seen).Query), "\n"))
	}
	from6 := seenOf(t, "www.example.", dns.TypeA, "2001:db8::14", dns.RcodeNameError)
	from6.Outcome = dnsserver.ByMemory
	fmt.Fprintf(&text, "# log-queries=extra\n%s\n", strings.Join(extraLines(104, &from6), "\n"))
	unsent := seenOf(t, "www.example.", dns.TypeA, "::ffff:10.128.0.14", 0)
	unsent.Response = nil
	fmt.Fprintf(&text, "# no response was sent\n%s\n", strings.Join(logLines(&unsent), "\n"))
	golden.Check(t, filepath.Join("testdata", "dnsmasq.txt"), text.String())
}
