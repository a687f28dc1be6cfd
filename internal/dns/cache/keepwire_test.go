package cache

import (
	"bytes"
	"encoding/binary"
	"testing"
	"time"
	"unique"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/dns/dnswire"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
)

// simpleResponses are responses to the question of ask. Those with a name are not simple.
var simpleResponses = []struct {
	name    string
	ask     string
	qtype   uint16
	rcode   int
	records []string // ";" before those of the authority section
}{
	{"", "www.example.", dns.TypeA, 0, []string{"www.example. 60 A 192.0.2.1", "www.example. 30 A 192.0.2.2"}},
	{"", "www.example.", dns.TypeAAAA, 0, []string{"www.example. 60 CNAME a.cdn.test.", "A.cdn.Test. 20 CNAME b.cdn.test.", "b.cdn.test. 60 AAAA 2001:db8::1"}},
	{"", "www.example.", dns.TypeAAAA, 0, []string{"www.example. 60 CNAME a.www.example.", "a.www.example. 20 AAAA 2001:db8::1"}},
	{"", "www.example.", dns.TypeTXT, 0, []string{`www.example. 60 TXT "one" "two"`}},
	{"", "1.2.0.192.in-addr.arpa.", dns.TypePTR, 0, []string{"1.2.0.192.in-addr.arpa. 60 PTR Www.Example."}},
	{"", "none.example.", dns.TypeA, dns.RcodeNameError, []string{";example. 60 SOA ns.example. root.example. 1 2 3 4 5"}},
	{"", "www.example.", dns.TypeMX, 0, []string{";example. 60 SOA Ns.other. root.example. 1 2 3 4 500"}},
	{"SOA owner in another letter case", "www.example.", dns.TypeMX, 0, []string{";Example. 60 SOA Ns.other. root.example. 1 2 3 4 500"}},
	{"", "www.example.", dns.TypeMX, 0, []string{"www.example. 9 CNAME www.test.", ";test. 60 SOA ns.test. root.test. 1 2 3 4 500"}},
	{"", "www.example.", dns.TypeA, 0, []string{"www.example. 4 CNAME www.test."}},
	{"", "www.example.", dns.TypeA, 0, nil},
	{"", ".", dns.TypeSOA, 0, []string{". 60 TXT x", ";. 60 SOA ns. root. 1 2 3 4 500"}},
	{"", "www.example.", dns.TypeA, 0, []string{"www.example. 0 A 192.0.2.1"}},
	{"record of another name", "www.example.", dns.TypeA, 0, []string{"www.example. 60 A 192.0.2.1", "w.example. 60 A 192.0.2.1"}},
	{"CNAME after its target", "www.example.", dns.TypeA, 0, []string{"a.test. 60 A 192.0.2.1", "www.example. 60 CNAME a.test."}},
	{"SOA of another zone", "www.example.", dns.TypeA, 0, []string{";test. 60 SOA ns.test. root.test. 1 2 3 4 500"}},
	{"a delegation", "www.example.", dns.TypeA, 0, []string{";example. 60 NS ns.example."}},
	{"name in the RDATA", "www.example.", dns.TypeSRV, 0, []string{"www.example. 60 SRV 1 2 3 a.example."}},
	{"SERVFAIL", "www.example.", dns.TypeA, dns.RcodeServerFailure, nil},
	{"TTL with the highest bit", "www.example.", dns.TypeA, 0, []string{"www.example. 2147483648 A 192.0.2.1"}},
	{"another class", "www.example.", dns.TypeA, 0, []string{`www.example. 60 CH TXT "x"`}},
}

func simpleResponse(t testing.TB, i int, opt bool) []byte {
	t.Helper()
	row := simpleResponses[i]
	m := new(dns.Msg).SetQuestion(row.ask, row.qtype)
	m.Response, m.RecursionAvailable, m.Authoritative, m.Rcode, m.Compress = true, true, true, row.rcode, true
	for _, text := range row.records {
		section := &m.Answer
		if text[0] == ';' {
			section, text = &m.Ns, text[1:]
		}
		rr, err := dns.NewRR(text)
		if err != nil {
			t.Fatal(err)
		}
		*section = append(*section, rr)
	}
	if opt {
		m.SetEdns0(1232, true)
	}
	wire, err := m.Pack()
	if err != nil {
		t.Fatal(err)
	}
	return wire
}

// TestReadResponse: which responses are simple, and which need the parser.
func TestReadResponse(t *testing.T) {
	for i, row := range simpleResponses {
		wire := simpleResponse(t, i, i%2 == 0)
		_, ok := dnswire.ReadResponse(wire, questionEndOf(wire))
		if ok != (row.name == "") {
			t.Errorf("%d %s: simple %v\n%x", i, row.name, ok, wire)
		}
	}
}

// FuzzKeepWire: an unparsed response reaches clients in the same form and for as long as a parsed
// one, for all limits and letter cases.
func FuzzKeepWire(f *testing.F) {
	for i := range simpleResponses {
		f.Add(simpleResponse(f, i, i%2 == 0), uint16(0), uint16(0), int8(0), uint32(0))
		f.Add(simpleResponse(f, i, i%2 == 0), uint16(0), uint16(25), int8(0), uint32(0))
		f.Add(simpleResponse(f, i, i%2 == 1), uint16(40), uint16(25), int8(20), uint32(10))
	}
	f.Fuzz(func(t *testing.T, wire []byte, least, bare uint16, own int8, highest uint32) {
		end := questionEndOf(wire)
		if end == 0 || binary.BigEndian.Uint16(wire[end-2:]) != dns.ClassINET {
			return
		}
		r, ok := dnswire.ReadResponse(bytes.Clone(wire), end)
		if !ok {
			return
		}
		m := new(dns.Msg)
		if err := m.Unpack(wire); err != nil || len(m.Question) != 1 {
			t.Fatalf("a simple response is invalid: %v: %x", err, wire)
		}
		if m.Truncated || len(m.Answer)+len(m.Ns) != int(wire[7])+int(wire[9])+256*(int(wire[6])+int(wire[8])) {
			t.Fatalf("message has trailing octets: %x", wire)
		}
		config := Config{Size: 10, MinTTL: time.Duration(least) * time.Second, NegativeTTL: time.Duration(bare) * time.Second}
		now := time.Now()
		config.Now = func() time.Time { return now }
		if own != 0 {
			config.Limit = func(dnsname.Name) time.Duration { return time.Duration(own) * time.Second }
		}
		q := dnsserver.WireQuery{
			Msg: append([]byte{1, 2, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0}, wire[12:end-4]...),
			End: end, Limit: dns.MaxMsgSize, EDNS: true,
		}
		for i, c := range q.Msg[12:] {
			if 'a' <= c && c <= 'z' {
				q.Msg[12+i] = c - 'a' + 'A'
			}
		}
		q.Msg = append(q.Msg, wire[end-4:end]...)
		var told [2]*dns.Msg
		var life [2]time.Duration
		for i := range told {
			c := New(config)
			var response Response
			if i == 0 {
				response = c.KeepWire(q, r, time.Duration(own)*time.Second, unique.Make(nameserver.Server{}), time.Time{}, c.Epoch())
			} else if response, ok = c.Keep(q, m, nameserver.Server{}, c.Epoch()); !ok {
				t.Fatalf("cannot be packed: %x", wire)
			}
			told[i], life[i] = new(dns.Msg), response.entry.life
			if err := told[i].Unpack(response.Append(nil, &q, highest)); err != nil {
				t.Fatalf("%v: %x", err, wire)
			}
			eachTTL(told[i], func(ttl uint32) uint32 {
				if highest == 0 && time.Duration(ttl)*time.Second < life[i] {
					t.Fatalf("TTL %d becomes negative in %v: %x", ttl, life[i], wire)
				}
				return ttl
			})
			if kept := c.Stats().Entries; kept == 1 != (life[i] > 0) {
				t.Fatalf("got %d entries with lifetime %v", kept, life[i])
			}
		}
		if life[0] != life[1] {
			t.Fatalf("lifetime %v, parsed %v: %x", life[0], life[1], wire)
		}
		for _, m := range told {
			for _, section := range [][]dns.RR{m.Answer, m.Ns, m.Extra} {
				for _, rr := range section {
					rr.Header().Rdlength = 0 // otherwise names would be compressed
				}
			}
		}
		if diff := cmp.Diff(told[1], told[0]); diff != "" {
			t.Fatalf("-parsed +unparsed:\n%s\n%x", diff, wire)
		}
	})
}

// questionEndOf returns the end of the question, or 0 if there is none or its name is compressed.
func questionEndOf(wire []byte) int {
	for at := dnswire.HeaderSize; at < len(wire) && wire[at] < 0x40; at += 1 + int(wire[at]) {
		if wire[at] == 0 && at+5 <= len(wire) {
			return at + 5
		}
	}
	return 0
}

// TestKeepForAnother: a response whose query was sent while another cache was in use may come from
// servers that are no longer configured, so it is not stored.
func TestKeepForAnother(t *testing.T) {
	before, now := New(Config{Size: 10}), New(Config{Size: 10})
	wire := simpleResponse(t, 0, false)
	end := len(wire) - 2*16
	r, ok := dnswire.ReadResponse(wire, end)
	if !ok {
		t.Fatal("the response is not simple")
	}
	q := dnsserver.WireQuery{Msg: wire[:end], Limit: 512, End: end}
	now.KeepWire(q, r, 0, unique.Make(nameserver.Server{}), time.Time{}, before.Epoch())
	if _, ok := now.AppendResponse(nil, q, 0); ok {
		t.Error("a response to a query of another cache is stored")
	}
	now.KeepWire(q, r, 0, unique.Make(nameserver.Server{}), time.Time{}, now.Epoch())
	if _, ok := now.AppendResponse(nil, q, 0); !ok {
		t.Error("a response to a later query is not stored")
	}
}
