package cache

import (
	"fmt"
	"testing"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnsserver"
)

// TestOddAnswersLeaveTheRest: 100,000 answers that must not be cached do not evict the existing
// entries (CVE-2026-50251: unbound dropped all).
func TestOddAnswersLeaveTheRest(t *testing.T) {
	const kept = 500
	u := &upstream{t: t, records: map[string]string{}}
	for i := range kept {
		name := fmt.Sprintf("n%d.example.", i)
		u.records[name+" A"] = name + " 300 IN A 192.0.2.1"
	}
	c := New(Config{Next: u, Size: 1000})
	for i := range kept {
		ask(t, c, query(fmt.Sprintf("n%d.example.", i), dns.TypeA, flags{}))
	}
	odd := []func(m *dns.Msg){
		func(m *dns.Msg) { m.Truncated = true },
		func(m *dns.Msg) { m.Rcode = dns.RcodeRefused },
		func(m *dns.Msg) { m.Rcode = dns.RcodeNameError }, // without SOA
		func(m *dns.Msg) { m.Rcode = dns.RcodeBadCookie },
		func(m *dns.Msg) {
			m.Answer = []dns.RR{&dns.A{Hdr: header("n1.example.", dns.TypeA, 0), A: []byte{6, 6, 6, 6}}}
		},
		func(m *dns.Msg) { m.Ns = []dns.RR{&dns.NS{Hdr: header("example.", dns.TypeNS, 60), Ns: "n1.example."}} },
		func(m *dns.Msg) {
			m.Rcode = dns.RcodeNameError
			m.Ns = []dns.RR{&dns.SOA{Hdr: header("elsewhere.", dns.TypeSOA, 60), Ns: "a.", Mbox: "b.", Minttl: 60}}
		},
	}
	for i := range 100_000 {
		u.change = odd[i%len(odd)]
		ask(t, c, query(fmt.Sprintf("odd%d.example.", i), dns.TypeA, flags{}))
	}
	asked := u.asked
	for i := range kept {
		ask(t, c, query(fmt.Sprintf("n%d.example.", i), dns.TypeA, flags{}))
	}
	if u.asked != asked {
		t.Errorf("%d of %d entries were dropped", u.asked-asked, kept)
	}
}

// TestLongOverUDP: a handler that needs a cached response parsed gets as much of it as a client
// over UDP may get, with TC. All of it took a millisecond of CPU time for each query.
func TestLongOverUDP(t *testing.T) {
	records := ""
	for i := range 1000 {
		records += fmt.Sprintf("www.example. 60 IN A 192.0.%d.%d\n", i/256, i%256)
	}
	c := New(Config{Size: 10, Next: &upstream{t: t, records: map[string]string{"www.example. A": records + "authority\nexample. 60 IN NS ns.example."}}})
	for i, proto := range []dnsserver.Proto{dnsserver.TCP, dnsserver.UDP, dnsserver.TCP, ""} {
		q := query("www.example.", dns.TypeA, flags{})
		q.Proto = proto
		m := ask(t, c, q)
		isCut := proto == dnsserver.UDP
		if q.Cached != (i > 0) || m.Truncated != isCut || isCut != (len(m.Answer) < 1000) || len(m.Answer) < 200 || len(m.Ns) == 0 != isCut {
			t.Errorf("over %s: %d records, TC %v, cached %v", proto, len(m.Answer), m.Truncated, q.Cached)
		}
	}
}
