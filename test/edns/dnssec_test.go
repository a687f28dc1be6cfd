package edns

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/test/dnstest"
)

// A way is a combination of a query's DO, CD and AD bits. Without DO there is no OPT record.
type way struct{ do, cd, ad bool }

func ways() (all []way) {
	for i := range 8 {
		all = append(all, way{i&1 != 0, i&2 != 0, i&4 != 0})
	}
	return all
}

func (w way) String() string { return fmt.Sprintf("DO=%t CD=%t AD=%t", w.do, w.cd, w.ad) }

func (w way) query(name string, qtype uint16) []byte {
	bits := rd
	if w.cd {
		bits |= cd
	}
	if w.ad {
		bits |= ad
	}
	if w.do {
		return message(bits, 1, 0, 0, 1, question(name, qtype), opt(1232, do))
	}
	return message(bits, 1, 0, 0, 0, question(name, qtype))
}

// TestMatrix queries the contents of a signed zone in every way, over UDP and TCP, so that at some
// point each way directly follows each other one. A client gets the requested records with the
// zone's exact bytes, signatures if and only if DO is set, and the upstream's AD if the query sets
// DO or AD (RFC 6840 sections 5.7 and 5.8). Answers for one way are not used for another one
// (CVE-2024-0874), except that ways that differ only in AD share an upstream query.
func TestMatrix(t *testing.T) {
	t.Parallel()
	zone := newSignedZone(t)
	upstream := dnstest.NewServer(t, zone.text)
	asks := []struct {
		name       string
		qtype      uint16
		records    int    // without signatures
		signatures int    // added by DO
		verifies   string // why signatures are not verified; empty if they are
	}{
		{name: "signed.test.", qtype: dns.TypeSOA, records: 1, signatures: 1},
		{name: "signed.test.", qtype: dns.TypeNS, records: 1, signatures: 1},
		{name: "signed.test.", qtype: dns.TypeMX, records: 1, signatures: 1},
		{name: "signed.test.", qtype: dns.TypeCAA, records: 1, signatures: 1},
		{name: "signed.test.", qtype: dns.TypeDNSKEY, records: 1, signatures: 1},
		{name: "signed.test.", qtype: dns.TypeNSEC3PARAM, records: 1, signatures: 1},
		{name: "www.signed.test.", qtype: dns.TypeA, records: 2, signatures: 1},
		{name: "WWW.Signed.TEST.", qtype: dns.TypeAAAA, records: 1, signatures: 1},
		{name: "www.signed.test.", qtype: dns.TypeNSEC, records: 1, signatures: 1},
		{name: "www.signed.test.", qtype: dns.TypeRRSIG, records: 3, verifies: "what they are over was not asked for"},
		{name: "alias.signed.test.", qtype: dns.TypeA, records: 3, signatures: 2},
		{name: "child.signed.test.", qtype: dns.TypeDS, records: 1, signatures: 1},
		{name: "child.signed.test.", qtype: dns.TypeCDS, records: 1, signatures: 1},
		{name: "any.wild.signed.test.", qtype: dns.TypeA, records: 1, signatures: 1},
		{name: "_443._tcp.www.signed.test.", qtype: dns.TypeTLSA, records: 1, signatures: 1},
		{name: "svc.signed.test.", qtype: dns.TypeHTTPS, records: 1, signatures: 1},
		{name: "txt.signed.test.", qtype: dns.TypeTXT, records: 1, signatures: 1},
		{name: "unknown.signed.test.", qtype: 65280, records: 1, signatures: 1},
		{name: "unknown.signed.test.", qtype: 65281, records: 1, signatures: 1},
		{name: "2t7b4g4vsa5smi47k61mv5bv1a22bojr.signed.test.", qtype: dns.TypeNSEC3, records: 1, signatures: 1},
	}
	for _, network := range []string{"udp", "tcp"} {
		daemon := serve(t, upstream)
		for _, ask := range asks {
			t.Run(fmt.Sprint(network, " ", ask.name, " ", dns.Type(ask.qtype)), func(t *testing.T) {
				before := upstream.QueriesFor(ask.name, ask.qtype)
				p := dial(t, network, daemon)
				learned := 0 // number of upstream queries once each way was used
				for i, w := range tour(ways()) {
					if i == 2*len(ways()) {
						learned = upstream.QueriesFor(ask.name, ask.qtype)
					}
					m := signedAnswer(t, p, w, ask.name, ask.qtype)
					want := ask.records
					if w.do {
						want += ask.signatures
					}
					if len(m.Answer) != want || len(m.Ns) > 0 {
						t.Fatalf("%v: %d records, want %d:\n%v", w, len(m.Answer), want, m)
					}
					if isSigned := m.AuthenticatedData; isSigned != (w.do || w.ad) && ask.qtype != dns.TypeRRSIG {
						t.Fatalf("%v: AD %v:\n%v", w, isSigned, m)
					}
					zoneHas(t, zone, m.Answer)
					if err := zone.verify(m.Answer); err != nil && ask.verifies == "" {
						t.Fatalf("%v: %v", w, err)
					}
				}
				if again := upstream.QueriesFor(ask.name, ask.qtype) - learned; learned-before < 4 || again > 0 {
					t.Errorf("the upstream got %d queries, want one for each DO and CD; and then %d more", learned-before, again)
				}
			})
		}
	}
}

// signedAnswer sends a query and checks what holds for every answer.
func signedAnswer(t *testing.T, p *peer, w way, name string, qtype uint16) *dns.Msg {
	t.Helper()
	asked := w.query(name, qtype)
	response := p.ask(asked)
	if line, faults := judge(asked, response, p.network); len(faults) > 0 || !strings.HasPrefix(line, "NOERROR ") {
		t.Fatalf("%v: %s; faults %q: %x", w, line, faults, response)
	}
	m := new(dns.Msg)
	if err := m.Unpack(response); err != nil {
		t.Fatal(err)
	}
	opt := m.IsEdns0()
	if m.CheckingDisabled != w.cd || (opt != nil) != w.do || w.do && !opt.Do() {
		t.Fatalf("%v: %v", w, m)
	}
	return m
}

// zoneHas checks that each record is in the zone, with the same bytes of data.
func zoneHas(t *testing.T, zone signedZone, section []dns.RR) {
	t.Helper()
	has := map[string]bool{}
	parser := dns.NewZoneParser(strings.NewReader(zone.text), ".", "")
	for rr, ok := parser.Next(); ok; rr, ok = parser.Next() {
		has[dataOf(t, rr)] = true
	}
	for _, rr := range section {
		if !has[dataOf(t, rr)] {
			t.Errorf("the zone has no %v", rr)
		}
	}
}

// dataOf returns the type and the data of a record. Names in types of RFC 1035 are lowercased,
// because a response may copy the letters of the question. DNSSEC lowercases them too (RFC 4034
// section 6.2).
func dataOf(t *testing.T, rr dns.RR) string {
	t.Helper()
	wire := make([]byte, dns.Len(rr)+512)
	start, err := dns.PackDomainName(rr.Header().Name, wire, 0, nil, false)
	if err != nil {
		t.Fatal(err)
	}
	end, err := dns.PackRR(rr, wire, 0, nil, false)
	if err != nil {
		t.Fatal(err)
	}
	data := string(wire[start+10 : end])
	switch rr.Header().Rrtype {
	case dns.TypeCNAME, dns.TypeNS, dns.TypeMX, dns.TypeSOA, dns.TypePTR:
		data = strings.ToLower(data)
	}
	return dns.Type(rr.Header().Rrtype).String() + " " + hex.EncodeToString([]byte(data))
}

// tour returns an order in which each element directly follows each other element and itself.
func tour[T any](all []T) (order []T) {
	for i := range all {
		for j := i; j < len(all); j++ {
			order = append(order, all[i], all[j])
		}
	}
	return order
}

// TestNegativeProofs: with DO, negative answers contain the complete proof. Without DO they contain
// none, even if the upstream sends it unrequested.
func TestNegativeProofs(t *testing.T) {
	t.Parallel()
	zone := newSignedZone(t)
	proofs := func(types ...string) string {
		var text strings.Builder
		for line := range strings.Lines(zone.text) {
			fields := strings.Fields(line)
			if slices.Contains(types, fields[3]) || fields[3] == "RRSIG" && slices.Contains(types, fields[4]) {
				text.WriteString(line)
			}
		}
		return text.String()
	}
	tests := []struct {
		name, ask string
		rcode     int
		proofs    string
		with      int // records in the authority section with DO; without DO it has the SOA record
	}{
		{"NODATA by NSEC", "www.signed.test.", dns.RcodeSuccess, proofs("NSEC"), 4},
		{"NXDOMAIN by NSEC", "nowhere.signed.test.", dns.RcodeNameError, proofs("NSEC"), 4},
		{"NXDOMAIN by NSEC3", "nothing.signed.test.", dns.RcodeNameError, proofs("NSEC3"), 4},
	}
	upstream := dnstest.NewServer(t, zone.text)
	for _, test := range tests {
		upstream.SetFaultsFor(test.ask, dnstest.Faults{ExtraAuthority: test.proofs})
	}
	daemon := serve(t, upstream)
	for _, test := range tests {
		for _, network := range []string{"udp", "tcp"} {
			t.Run(test.name+" "+network, func(t *testing.T) {
				p := dial(t, network, daemon)
				for _, w := range tour(ways()) {
					asked := w.query(test.ask, dns.TypeLOC)
					response := p.ask(asked)
					m := new(dns.Msg)
					if err := m.Unpack(response); err != nil {
						t.Fatal(err)
					}
					want := 1
					if w.do {
						want = test.with
					}
					if _, faults := judge(asked, response, network); len(faults) > 0 || m.Rcode != test.rcode || len(m.Ns) != want || len(m.Answer) > 0 {
						t.Fatalf("%v: faults %q, want %d:\n%v", w, faults, want, m)
					}
					zoneHas(t, zone, m.Ns)
					if err := zone.verify(m.Ns); err != nil {
						t.Fatalf("%v: %v", w, err)
					}
				}
			})
		}
	}
}

// TestLargeSigned: an answer that does not fit is truncated and marked. Over TCP it is complete,
// with its signature. Other clients never get the truncated one from the cache.
func TestLargeSigned(t *testing.T) {
	t.Parallel()
	zone := newSignedZone(t)
	daemon := serve(t, dnstest.NewServer(t, zone.text))
	const name, records = "large.signed.test.", 30
	for range 3 {
		for _, w := range ways() {
			asked := w.query(name, dns.TypeTXT)
			response := dial(t, "udp", daemon).ask(asked)
			m := new(dns.Msg)
			if err := m.Unpack(response); err != nil {
				t.Fatal(err)
			}
			if _, faults := judge(asked, response, "udp"); len(faults) > 0 || !m.Truncated || m.CheckingDisabled != w.cd || len(m.Answer) >= records {
				t.Fatalf("%v: faults %q:\n%v", w, faults, m)
			}
			whole := signedAnswer(t, dial(t, "tcp", daemon), w, name, dns.TypeTXT)
			want := records
			if w.do {
				want++
			}
			if len(whole.Answer) != want || whole.Truncated {
				t.Fatalf("%v: %d records over TCP, want %d", w, len(whole.Answer), want)
			}
			if err := zone.verify(whole.Answer); err != nil {
				t.Fatalf("%v: %v", w, err)
			}
		}
	}
}

// TestUpstreamIsTold: DO and CD reach the upstream as the client set them, AD is always set, and
// nothing else of the client's OPT record is forwarded.
func TestUpstreamIsTold(t *testing.T) {
	t.Parallel()
	upstream := dnstest.NewServer(t, world)
	daemon := serve(t, upstream)
	for _, network := range []string{"udp", "tcp"} {
		for _, w := range ways() {
			label := unused()
			asked := named(w.query(one, dns.TypeA), label)
			if w.do {
				asked = named(message(int(asked[2])<<8|int(asked[3]), 1, 0, 0, 1, www, opt(4096, do|0x55, option(dns.EDNS0SUBNET, "0001 18 00 c00002"),
					option(dns.EDNS0COOKIE, cookie8), option(dns.EDNS0NSID, ""), option(100, "01"))), label)
			}
			dial(t, network, daemon).ask(asked)
			q := lastFor(t, upstream, label)
			opt := q.IsEdns0()
			if opt == nil || opt.Do() != w.do || q.CheckingDisabled != w.cd || !q.AuthenticatedData || len(opt.Option) > 0 || opt.Z() != 0 || opt.UDPSize() != 1232 {
				t.Errorf("%s %v: the upstream got %v", network, w, q)
			}
		}
	}
}

// lastFor returns the upstream query for a name with that label.
func lastFor(t *testing.T, upstream *dnstest.Server, label string) *dns.Msg {
	t.Helper()
	for _, q := range upstream.Received() {
		if strings.Contains(q.Msg.Question[0].Name, label) {
			return q.Msg
		}
	}
	t.Fatalf("the upstream got no query for %s", label)
	return nil
}
