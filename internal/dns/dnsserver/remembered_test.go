package dnsserver_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/cache"
	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/dns/dnswire"
)

// remembers returns a server whose cache has the response to the query, so that it also answers on
// the fast path. Its clock is stopped at the given age.
func remembers(t testing.TB, asked *dns.Msg, response *dns.Msg, age time.Duration) *dnsserver.Server {
	t.Helper()
	now := time.Now()
	if wire, err := dnswire.Pack(response); err == nil { // packed as an upstream nameserver sends it
		if m, err := dnswire.Unpack(wire); err == nil {
			response = m
		}
	}
	c := cache.New(cache.Config{
		Size: 10, MaxBytes: 1 << 20, Now: func() time.Time { return now },
		Next: dnsserver.HandlerFunc(func(context.Context, *dnsserver.Query) (*dns.Msg, error) { return response, nil }),
	})
	s := dnsserver.New(dnsserver.Config{
		Handler: c,
		Wire:    func(dst []byte, q *dnsserver.WireQuery) ([]byte, bool) { return c.AppendResponse(dst, *q, 0) },
	})
	t.Cleanup(func() { s.Shutdown(context.Background()) })
	first := asked.Copy()
	first.RecursionDesired = true
	q := &dnsserver.Query{Msg: first}
	q.Name, _ = dnsname.Parse(first.Question[0].Name)
	if _, err := c.ServeDNS(context.Background(), q); err != nil {
		t.Fatal(err)
	}
	now = now.Add(age)
	return s
}

// same checks that a query answered on the fast path gets exactly the same response when it is
// parsed. It reports whether the fast path answered.
func same(t *testing.T, s *dnsserver.Server, query []byte, proto dnsserver.Proto) bool {
	t.Helper()
	onWire, parsed := s.BothWays(query, proto)
	if onWire == nil {
		return false
	}
	if !bytes.Equal(onWire, parsed) {
		t.Fatalf("to %x over %s\nfast path\n%x\n%v\nparsed\n%x\n%v", query, proto, onWire, unpacked(onWire), parsed, unpacked(parsed))
	}
	return true
}

func unpacked(wire []byte) any {
	m := new(dns.Msg)
	if err := m.Unpack(wire); err != nil {
		return err
	}
	return m
}

// mixed returns name with upper-case letters where bits are set.
func mixed(name string, bits uint64) string {
	text := []byte(name)
	for i, c := range text {
		if 'a' <= c && c <= 'z' && bits>>(i%64)&1 != 0 {
			text[i] = c - 'a' + 'A'
		}
	}
	return string(text)
}

// aRecord returns a record of the given kind for the queried name.
func aRecord(kind byte, i int, name string) dns.RR {
	head := func(owner string, rrtype uint16) dns.RR_Header {
		return dns.RR_Header{Name: owner, Rrtype: rrtype, Class: dns.ClassINET, Ttl: 300 + uint32(kind)}
	}
	zone := name[strings.IndexByte(name, '.')+1:]
	host := fmt.Sprintf("Host-%d.%s", i%7, zone)
	far := fmt.Sprintf("Host-%d.Elsewhere.test.", i%5)
	switch kind % 16 {
	case 0:
		return &dns.AAAA{Hdr: head(name, dns.TypeAAAA), AAAA: bytes.Repeat([]byte{kind}, 16)}
	case 1:
		return &dns.CNAME{Hdr: head(name, dns.TypeCNAME), Target: host}
	case 2:
		return &dns.CNAME{Hdr: head(host, dns.TypeCNAME), Target: far}
	case 3:
		return &dns.A{Hdr: head(far, dns.TypeA), A: []byte{192, 0, 2, byte(i)}}
	case 4:
		return &dns.NS{Hdr: head(zone, dns.TypeNS), Ns: host}
	case 5:
		return &dns.MX{Hdr: head(name, dns.TypeMX), Preference: uint16(i), Mx: host}
	case 6:
		return &dns.SOA{Hdr: head(zone, dns.TypeSOA), Ns: host, Mbox: "Hostmaster." + zone, Minttl: 60}
	case 7:
		return &dns.TXT{Hdr: head(name, dns.TypeTXT), Txt: []string{strings.Repeat("x", int(kind)), `\000\255 \"`}}
	case 8:
		return &dns.PTR{Hdr: head(name, dns.TypePTR), Ptr: far}
	case 9: // from here on, names that are not compressed and have no capital letters
		return &dns.SRV{Hdr: head(name, dns.TypeSRV), Port: uint16(i), Target: strings.ToLower(host)}
	case 10:
		return &dns.RRSIG{Hdr: head(name, dns.TypeRRSIG), TypeCovered: dns.TypeA, SignerName: strings.ToLower(zone), Signature: "c2lnbmF0dXJl"}
	case 11:
		return &dns.HTTPS{SVCB: dns.SVCB{Hdr: head(name, dns.TypeHTTPS), Priority: 1, Target: strings.ToLower(far)}}
	case 12:
		return &dns.NSEC{Hdr: head(zone, dns.TypeNSEC), NextDomain: strings.ToLower(host), TypeBitMap: []uint16{dns.TypeA}}
	case 13:
		return &dns.DNAME{Hdr: head(zone, dns.TypeDNAME), Target: strings.ToLower(far)}
	case 14:
		return &dns.NAPTR{Hdr: head(name, dns.TypeNAPTR), Service: "E2U+sip", Replacement: strings.ToLower(host)}
	}
	return &dns.RFC3597{Hdr: head(name, 65280), Rdata: "c00c"}
}

// FuzzTruncate: a hit is the same on the fast path and when parsed, regardless of the records and
// the space. One byte of each section stands for one record. Excluded are records that compress
// differently when they are packed again: names that must not be compressed, with capital letters
// where the query has them too.
func FuzzTruncate(f *testing.F) {
	f.Add(bytes.Repeat([]byte{0}, 40), []byte{}, []byte{}, uint16(512), uint64(0), uint64(0), true)
	f.Add(bytes.Repeat([]byte{3}, 200), []byte{4, 20}, []byte{3, 19}, uint16(1232), uint64(5), uint64(1<<63-1), false)
	f.Add([]byte{1, 2, 3, 19, 35}, []byte{4, 4, 4, 6}, bytes.Repeat([]byte{3}, 90), uint16(700), uint64(1<<20), uint64(3), true)
	f.Add([]byte{9, 25, 41, 10, 11, 12, 13, 14, 15, 5, 7, 8}, []byte{12, 10, 6}, []byte{3}, uint16(600), uint64(7), uint64(1<<40), true)
	f.Add(bytes.Repeat([]byte{247, 7, 10}, 60), []byte{}, []byte{}, uint16(4096), uint64(0), uint64(0), true)
	f.Fuzz(func(t *testing.T, answer, authority, additional []byte, size uint16, first, second uint64, do bool) {
		const name = "www.a-zone.example."
		if len(answer)+len(authority)+len(additional) > 1000 {
			return
		}
		asked := new(dns.Msg).SetQuestion(mixed(name, first), dns.TypeANY)
		if do || size > 512 {
			asked.SetEdns0(size, do)
		}
		response := new(dns.Msg).SetReply(asked)
		response.AuthenticatedData = do
		for section, kinds := range map[*[]dns.RR][]byte{&response.Answer: answer, &response.Ns: authority, &response.Extra: additional} {
			for i, kind := range kinds {
				*section = append(*section, aRecord(kind, i, asked.Question[0].Name))
			}
		}
		if len(answer) == 0 && len(authority) == 0 {
			return
		}
		s := remembers(t, asked, response, 1500*time.Millisecond)
		again := asked.Copy()
		again.Question[0].Name = mixed(name, second)
		again.RecursionDesired = first&1 == 0
		query, err := again.Pack()
		if err != nil {
			t.Fatal(err)
		}
		for _, proto := range []dnsserver.Proto{dnsserver.UDP, dnsserver.TCP} {
			if hit := same(t, s, query, proto); !hit && len(answer) > 0 && len(answer)+len(authority)+len(additional) < 100 {
				t.Fatal("not cached")
			}
		}
	})
}

// FuzzRemembered: whatever the upstream responds and whatever is queried then, a hit on the fast
// path equals the parsed response.
func FuzzRemembered(f *testing.F) {
	asked := new(dns.Msg).SetQuestion("www.a-zone.example.", dns.TypeANY)
	for kind := range byte(16) {
		response := new(dns.Msg).SetReply(asked)
		response.Answer = []dns.RR{aRecord(kind, 1, asked.Question[0].Name), aRecord(0, 2, asked.Question[0].Name)}
		response.Ns = []dns.RR{aRecord(6, 3, asked.Question[0].Name)}
		response.Compress = kind%2 == 0
		said, err := response.Pack()
		if err != nil {
			f.Fatal(err)
		}
		query, err := asked.Pack()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(said, query, uint16(0))
	}
	f.Fuzz(func(t *testing.T, said, query []byte, age uint16) {
		asked := new(dns.Msg)
		response, err := dnswire.Unpack(said)
		if asked.Unpack(query) != nil || len(asked.Question) != 1 || err != nil {
			return
		}
		response.Question = asked.Question
		s := remembers(t, asked, response, time.Duration(age)*time.Second)
		if hasOtherNames(response) { // these compress differently when packed again
			if onWire, parsed := s.BothWays(query, dnsserver.TCP); onWire != nil && fmt.Sprint(unpacked(onWire)) != fmt.Sprint(unpacked(parsed)) {
				t.Fatalf("to %x\nfast path\n%x\nparsed\n%x", query, onWire, parsed)
			}
			return
		}
		for _, proto := range []dnsserver.Proto{dnsserver.UDP, dnsserver.TCP} {
			same(t, s, query, proto)
		}
	})
}

// hasOtherNames reports whether a message may contain names that the cache does not know of.
func hasOtherNames(m *dns.Msg) bool {
	for _, section := range [][]dns.RR{m.Answer, m.Ns, m.Extra} {
		for _, rr := range section {
			switch rr.(type) {
			case *dns.A, *dns.AAAA, *dns.CNAME, *dns.NS, *dns.PTR, *dns.MX, *dns.SOA, *dns.TXT:
			default:
				return true
			}
		}
	}
	return false
}

// TestRememberedAllocates: answering from the cache allocates nothing, from accept to the response.
func TestRememberedAllocates(t *testing.T) {
	asked := new(dns.Msg).SetQuestion("www.a-zone.example.", dns.TypeAAAA)
	asked.SetEdns0(1232, true)
	response := new(dns.Msg).SetReply(asked)
	for i := range 60 {
		response.Answer = append(response.Answer, aRecord(0, i, "www.a-zone.example."))
	}
	s := remembers(t, asked, response, time.Second)
	query, err := asked.Pack()
	if err != nil {
		t.Fatal(err)
	}
	buf, all := make([]byte, 4096), true
	if n := testing.AllocsPerRun(100, func() { all = all && s.OnWire(query, buf) != nil }); n != 0 || !all {
		t.Errorf("got %v allocations, answered %v", n, all)
	}
}
