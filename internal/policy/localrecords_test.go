package policy

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dnsmasqconf"
)

// TestAnswer: which names have a local answer. A test in package daemon compares the answers with
// dnsmasq's.
func TestAnswer(t *testing.T) {
	name := dnsname.MustParse
	config := dnsmasqconf.Config{
		Hosts: []dnsmasqconf.Host{
			{Names: []dnsname.Name{name("h.corp"), name("g.corp")}, Addrs: []netip.Addr{netip.MustParseAddr("192.0.2.4")}, TTL: 7},
			{Names: []dnsname.Name{name("late.corp")}, Addrs: []netip.Addr{netip.MustParseAddr("192.0.2.4")}, TTL: dnsmasqconf.Unset},
		},
		CNAMEs:    []dnsmasqconf.CNAME{{Alias: name("al.corp"), Target: name("h.corp"), TTL: dnsmasqconf.Unset}, {Alias: name("up.corp"), Target: name("a.example"), TTL: 5}},
		Records:   []dnsmasqconf.Record{{Name: name("t.corp"), RR: &dns.TXT{Hdr: dns.RR_Header{Rrtype: dns.TypeTXT, Class: dns.ClassINET}, Txt: []string{`a\"\\`, `\000\195\169`}}}},
		MXs:       []dnsmasqconf.MX{{Name: name("m.corp"), Preference: 3}},
		Addresses: []dnsmasqconf.Address{{Domain: name("apps.example"), Addr: netip.MustParseAddr("192.0.2.9")}, {Plain: true}},
		Numbers:   map[string]int{"local-ttl": 50},
	}
	data := NewLocalRecords(config, name("node.example"))
	rows := []struct {
		question string
		least    int
		want     string // "" if there is no local answer
	}{
		{"h.corp. A", 0, "h.corp. 7 IN A 192.0.2.4"},
		{"H.Corp. A", 0, "H.Corp. 7 IN A 192.0.2.4"},
		{"h.corp. AAAA", 0, ""},
		{"x.h.corp. A", 0, ""},
		{"4.2.0.192.in-addr.arpa. PTR", 0, "4.2.0.192.in-addr.arpa. 7 IN PTR h.corp."},
		{"al.corp. A", 0, "al.corp. 50 IN CNAME h.corp. | h.corp. 7 IN A 192.0.2.4"},
		{"al.corp. CNAME", 0, "al.corp. 50 IN CNAME h.corp."},
		{"up.corp. A", 0, "up.corp. 5 IN CNAME a.example."},
		{"t.corp. TXT", 0, `t.corp. 50 IN TXT "a\"\\" "\000\195\169"`},
		{"m.corp. MX", 0, "m.corp. 50 IN MX 3 node.example."},
		{"apps.example. A", 0, "apps.example. 50 IN A 192.0.2.9"},
		{"x.apps.example. A", 2, "x.apps.example. 50 IN A 192.0.2.9"},
		{"x.apps.example. A", 3, ""},
		{"x.apps.example. TXT", 0, ""},
		{"plain. AAAA", 0, "plain. 50 IN AAAA ::"},
		{"example. A", 1, ""},
	}
	for _, row := range rows {
		qname, qtype, _ := strings.Cut(row.question, " ")
		question := dns.Question{Name: qname, Qtype: dns.StringToType[qtype], Qclass: dns.ClassINET}
		answer, ok := data.Answer(question, name(qname), row.least, netip.Prefix{})
		if (ok || data.Exists(name(qname))) && !data.Concerns([]byte(name(qname).String())) {
			t.Errorf("Concerns is false for %s", row.question)
		}
		var texts []string
		for _, rr := range answer {
			texts = append(texts, strings.Join(strings.Fields(rr.String()), " "))
			if _, err := dns.PackRR(rr, make([]byte, 512), 0, nil, false); err != nil {
				t.Errorf("%s: %v", row.question, err)
			}
		}
		if got := strings.Join(texts, " | "); got != row.want || ok != (row.want != "") {
			t.Errorf("%s: got %q, %v", row.question, got, ok)
		}
	}
	for text, want := range map[string]bool{"h.corp": true, "corp": true, "x.h.corp": false, "q.apps.example": true, "example": true, "b.example": false, "plain": true, ".": false} {
		if data.Exists(name(text)) != want {
			t.Errorf("Exists(%s) is %v", text, !want)
		}
		if got := data.Concerns([]byte(name(text).String())); got != (want || text == ".") {
			t.Errorf("Concerns(%s) is %v", text, got)
		}
	}
	known := slices.DeleteFunc([]string{"corp", "example", "apps.example", "other", "a.b"}, func(zone string) bool { return !data.Knows(name(zone)) })
	if got := strings.Join(known, " "); got != "corp example apps.example" {
		t.Errorf("got known zones %s", got)
	}
	text := []byte("no-such-name.example.net.")
	if n := testing.AllocsPerRun(10, func() { data.Concerns(text) }); n != 0 {
		t.Errorf("got %v allocations for an unknown name", n)
	}
	all := NewLocalRecords(dnsmasqconf.Config{Addresses: []dnsmasqconf.Address{{Domain: dnsname.Root(), Addr: netip.MustParseAddr("192.0.2.9")}}}, dnsname.Name{})
	if !all.Concerns(text) || (*LocalRecords)(nil).Concerns(text) {
		t.Error("want Concerns true with address=/#/, and false for nil")
	}
	if nothing := NewLocalRecords(dnsmasqconf.Config{}, dnsname.Name{}); !nothing.IsEmpty() || !(*LocalRecords)(nil).IsEmpty() {
		t.Error("want IsEmpty for an empty configuration and for nil")
	}
}
