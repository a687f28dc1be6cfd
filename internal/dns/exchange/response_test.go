package exchange

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnswire"
)

// sentQuery returns a query as we send it, and a valid response.
func sentQuery(t testing.TB, as Form) (sent []byte, good *dns.Msg) {
	t.Helper()
	sent, err := Question{Name: "www.example.", Type: dns.TypeA, Class: dns.ClassINET, RD: true}.wire(as, DefaultUDPSize)
	if err != nil {
		t.Fatal(err)
	}
	setID(sent, 0x1234)
	asked := new(dns.Msg)
	if err := asked.Unpack(sent); err != nil {
		t.Fatal(err)
	}
	good = new(dns.Msg).SetReply(asked)
	good.Answer = rrs(t, "www.example. 60 IN A 192.0.2.1")
	good.SetEdns0(1232, false)
	return sent, good
}

// rrs returns records as they come from a server.
func rrs(t testing.TB, texts ...string) []dns.RR {
	t.Helper()
	var all []dns.RR
	for _, text := range texts {
		rr, err := dns.NewRR(text)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, rr)
	}
	wire, err := dnswire.Pack(&dns.Msg{Question: []dns.Question{{Name: "."}}, Answer: all})
	if err != nil {
		t.Fatal(err)
	}
	m, err := dnswire.Unpack(wire)
	if err != nil {
		t.Fatal(err)
	}
	return m.Answer
}

func TestDecode(t *testing.T) {
	rows := []struct {
		name   string
		as     Form
		change func(*dns.Msg)
		wire   func([]byte) []byte
		want   error
	}{
		{name: "valid response"},
		{name: "name in another case", change: func(m *dns.Msg) { m.Question[0].Name = "wWw.EXAMPLE." }},
		{name: "NXDOMAIN", change: func(m *dns.Msg) { m.Rcode, m.Answer = dns.RcodeNameError, nil }},
		{name: "ID of another query", change: func(m *dns.Msg) { m.Id++ }, want: errID},
		{name: "a query", change: func(m *dns.Msg) { m.Response = false }, want: errNoReply},
		{name: "a NOTIFY", change: func(m *dns.Msg) { m.Opcode = dns.OpcodeNotify }, want: errNoReply},
		{name: "another name", change: func(m *dns.Msg) { m.Question[0].Name = "xww.example." }, want: errQuestion},
		{name: "another name with a different length", change: func(m *dns.Msg) { m.Question[0].Name = "w.example." }, want: errQuestion},
		{name: "another type", change: func(m *dns.Msg) { m.Question[0].Qtype = dns.TypeAAAA }, want: errQuestion},
		{name: "another class", change: func(m *dns.Msg) { m.Question[0].Qclass = dns.ClassCHAOS }, want: errQuestion},
		{name: "no question", change: func(m *dns.Msg) { m.Question = nil }, want: errQuestion},
		{name: "two questions", change: func(m *dns.Msg) { m.Question = append(m.Question, m.Question[0]) }, want: errQuestion},
		{name: "empty", wire: func([]byte) []byte { return nil }, want: errShort},
		{name: "one octet", wire: func(w []byte) []byte { return w[:1] }, want: errShort},
		{name: "header cut", wire: func(w []byte) []byte { return w[:11] }, want: errShort},
		{name: "question cut", wire: func(w []byte) []byte { return w[:20] }, want: errQuestion},
		{name: "answer cut", wire: func(w []byte) []byte { return w[:40] }, want: dnswire.ErrMalformed},
		// miekg/dns parses this as a response without records, which would be NODATA.
		{name: "answer counted but missing", wire: func(w []byte) []byte { return w[:29] }, want: dnswire.ErrMalformed},
		{name: "bytes after the end", wire: func(w []byte) []byte { return append(w, make([]byte, 20)...) }},
		{name: "zeros", wire: func(w []byte) []byte { return make([]byte, 200) }, want: errID},
		{
			name: "owner that points to itself (RFC 9267)", want: dnswire.ErrMalformed,
			wire: func(w []byte) []byte { w[29], w[30] = 0xc0, 29; return w },
		},
		// miekg/dns repacked these for the client in an unreadable form, with RDATA that ends
		// early.
		{name: "SOA without RDATA", change: withoutRecords, wire: appendEmpty(dns.TypeSOA), want: dnswire.ErrMalformed},
		{name: "TSIG without RDATA", change: withoutRecords, wire: appendEmpty(dns.TypeTSIG), want: dnswire.ErrMalformed},
		{name: "A without RDATA", change: withoutRecords, wire: appendEmpty(dns.TypeA), want: dnswire.ErrMalformed},
		{name: "type with optional RDATA", change: withoutRecords, wire: appendEmpty(dns.TypeNULL)},
		{name: "an unknown type", change: withoutRecords, wire: appendEmpty(65280)},
		{name: "truncated and cut", change: func(m *dns.Msg) { m.Truncated = true }, wire: func(w []byte) []byte { return w[:40] }},
		{name: "truncated, another question", change: func(m *dns.Msg) { m.Truncated = true; m.Question[0].Qtype = dns.TypeMX }, want: errQuestion},
		{name: "header alone, FORMERR", change: headerOnly(dns.RcodeFormatError)},
		{name: "header alone, NOTIMP", change: headerOnly(dns.RcodeNotImplemented)},
		{name: "header alone, NOERROR", change: headerOnly(dns.RcodeSuccess), want: errQuestion},
		{name: "header alone, REFUSED", change: headerOnly(dns.RcodeRefused), want: errQuestion},
		{name: "header alone, FORMERR, to a query without EDNS", as: WithoutEDNS, change: headerOnly(dns.RcodeFormatError), want: errQuestion},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			sent, m := sentQuery(t, row.as)
			if row.change != nil {
				row.change(m)
			}
			wire, err := m.Pack()
			if err != nil {
				t.Fatal(err)
			}
			if row.wire != nil {
				wire = row.wire(wire)
			}
			got, err := Decode(sent, wire)
			if !errors.Is(err, row.want) || (got == nil) != (row.want != nil) {
				t.Errorf("got %v, %v; want error %v", got, err, row.want)
			}
		})
	}
}

func withoutRecords(m *dns.Msg) { m.Answer, m.Extra = nil, nil }

// appendEmpty adds a record without RDATA to the authority section of a message without records.
func appendEmpty(kind uint16) func([]byte) []byte {
	return func(w []byte) []byte {
		w[9] = 1
		return append(w, 0, byte(kind>>8), byte(kind), 0, 1, 0, 0, 0, 60, 0, 0)
	}
}

func headerOnly(rcode int) func(*dns.Msg) {
	return func(m *dns.Msg) {
		m.Rcode, m.Question, m.Answer, m.Extra = rcode, nil, nil, nil
	}
}

func TestTTLWithTheHighestBit(t *testing.T) {
	sent, m := sentQuery(t, WithEDNS)
	m.Answer = rrs(t, "www.example. 4294967295 IN A 192.0.2.1", "www.example. 2147483647 IN A 192.0.2.2")
	wire, err := m.Pack()
	if err != nil {
		t.Fatal(err)
	}
	got, err := Decode(sent, wire)
	if err != nil || got.Answer[0].Header().Ttl != 0 || got.Answer[1].Header().Ttl != 2147483647 {
		t.Errorf("%v, %v", got, err)
	}
}

// FuzzDecode passes a server's bytes to Decode and to everything that inspects the result. Nothing
// panics. An accepted message has the right ID and question. If miekg/dns can pack it, the result
// can be parsed again and has the same question.
func FuzzDecode(f *testing.F) {
	sent, good := sentQuery(f, WithEDNS)
	wire, err := good.Pack()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(wire)
	odd := good.Copy()
	odd.Answer = rrs(f, `www.example. 60 IN TXT "a\000b" ""`, "www.example. 60 IN HTTPS 1 . alpn=h2 port=8443 ipv6hint=2001:db8::1",
		"www.example. 60 IN NSEC a.example. A TYPE65280", "www.example. 60 IN APL 1:10.0.0.0/8", "www.example. 60 IN NAPTR 1 1 \"u\" \"\" \"!^.*$!x!\" .",
		"www.example. 60 IN LOC 52 22 23.000 N 4 53 32.000 E -2.00m 0.00m 10000m 10m", "www.example. 60 IN TYPE65280 \\# 2 abcd")
	if wire, err = odd.Pack(); err != nil {
		f.Fatal(err)
	}
	f.Add(wire)
	good.Truncated = true
	if wire, err = good.Pack(); err != nil {
		f.Fatal(err)
	}
	f.Add(wire[:40])
	f.Add([]byte{0x12, 0x34, 0x80, 0x01, 0, 0, 0, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, wire []byte) {
		m, err := Decode(sent, wire)
		if err != nil {
			return
		}
		if wire[0] != 0x12 || wire[1] != 0x34 || !m.Response {
			t.Fatalf("accepted %x", wire)
		}
		Judge(m, true, false)
		if len(m.Question) == 0 {
			if IsPresentable(m) {
				t.Fatalf("IsPresentable accepts a message without a question: %x", wire)
			}
			return
		}
		got := m.Question[0]
		if len(m.Question) != 1 || dns.CanonicalName(got.Name) != "www.example." || got.Qtype != dns.TypeA || got.Qclass != dns.ClassINET {
			t.Fatalf("accepted %x with %v", wire, m.Question)
		}
		if opt := m.IsEdns0(); opt != nil {
			KeepErrors(m, opt)
		}
		dnswire.KeepRelated(m, "www.example.")
		packed, err := m.Pack()
		if err != nil {
			return // miekg/dns reads what it cannot write; dnsserver then answers SERVFAIL
		}
		// RDATA of types that nothing here parses is left to the client.
		if again, err := dnswire.Unpack(packed); err != nil || len(again.Question) != 1 || again.Question[0] != got {
			t.Fatalf("accepted %x, but it repacks as %x", wire, packed)
		}
	})
}

// FuzzSimple: a response that is not parsed keeps nothing that parsing would drop. Decode reads the
// same from it, it is final, and dnswire.KeepRelated and KeepErrors do not change it.
func FuzzSimple(f *testing.F) {
	sent, good := sentQuery(f, WithEDNS)
	for _, change := range []func(m *dns.Msg){
		func(*dns.Msg) {},
		func(m *dns.Msg) { m.Answer = append(m.Answer, rrs(f, "bank. 60 IN A 6.6.6.6")...) },
		func(m *dns.Msg) { m.Ns = rrs(f, "example. 60 IN NS ns.example.") },
		func(m *dns.Msg) { m.Ns = rrs(f, "bank. 60 IN SOA ns.bank. root.bank. 1 2 3 4 5"); m.Answer = nil },
		func(m *dns.Msg) {
			m.Ns = rrs(f, "example. 60 IN SOA ns.bank. root.bank. 1 2 3 4 5")
			m.Answer = nil
		},
		func(m *dns.Msg) { m.Extra = append(rrs(f, "bank. 60 IN A 6.6.6.6"), m.Extra...) },
		func(m *dns.Msg) {
			m.Answer = rrs(f, "www.example. 60 IN CNAME a.test.", "a.test. 60 IN CNAME b.test.", "b.test. 60 IN A 192.0.2.1")
		},
		func(m *dns.Msg) {
			m.Answer = rrs(f, "www.example. 60 IN CNAME a.test.", "b.test. 60 IN A 192.0.2.1")
		},
		func(m *dns.Msg) {
			m.Answer = rrs(f, "www.example. 60 IN A 192.0.2.1", "www.example. 60 IN CNAME b.test.", "b.test. 60 IN A 6.6.6.6")
		},
		func(m *dns.Msg) {
			m.IsEdns0().Option = []dns.EDNS0{&dns.EDNS0_EDE{InfoCode: 3}}
		},
		func(m *dns.Msg) { m.Truncated = true },
		func(m *dns.Msg) { m.Rcode = dns.RcodeServerFailure },
		func(m *dns.Msg) { m.Rcode = dns.RcodeBadCookie },
		func(m *dns.Msg) { m.Answer[0].Header().Ttl = 1 << 31 },
	} {
		m := good.Copy()
		m.Compress = true
		change(m)
		wire, err := m.Pack()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(wire)
	}
	f.Fuzz(func(t *testing.T, wire []byte) {
		r, ok := Simple(sent, bytes.Clone(wire))
		if !ok {
			return
		}
		m, err := Decode(sent, wire)
		if err != nil {
			t.Fatalf("%v: %x", err, wire)
		}
		if verdict := Judge(m, true, false); verdict != Final {
			t.Fatalf("verdict %v: %x", verdict, wire)
		}
		opt := m.IsEdns0()
		if (opt != nil) != r.HasOPT {
			t.Fatalf("OPT %v, %v: %x", opt, r.HasOPT, wire)
		}
		if opt != nil {
			KeepErrors(m, opt)
		}
		before := m.Copy()
		dnswire.KeepRelated(m, "www.example.")
		if diff := cmp.Diff(before, m, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("-received +kept:\n%s\n%x", diff, wire)
		}
		if m.IsEdns0() != nil || len(m.Extra) > 0 || len(m.Answer) != count(r.Message, 6) || len(m.Ns) != count(r.Message, 8) {
			t.Fatalf("more than what is cached:\n%v\n%x", m, wire)
		}
		if id := binary.BigEndian.Uint16(r.Message); id != 0x1234 {
			t.Fatalf("ID %x", id)
		}
	})
}

func TestExtendedErrorsPass(t *testing.T) {
	m := new(dns.Msg).SetRcode(new(dns.Msg).SetQuestion("a.example.", dns.TypeA), dns.RcodeServerFailure)
	m.Extra = rrs(t, "ns.example. 60 IN A 192.0.2.53")
	m.SetEdns0(4096, true)
	opt := m.IsEdns0()
	bogus := &dns.EDNS0_EDE{InfoCode: dns.ExtendedErrorCodeDNSBogus, ExtraText: "signature expired"}
	opt.Option = []dns.EDNS0{&dns.EDNS0_COOKIE{Code: dns.EDNS0COOKIE, Cookie: "00"}, bogus}
	KeepErrors(m, opt)
	kept := m.IsEdns0()
	if kept == nil || len(kept.Option) != 1 || kept.Option[0] != dns.EDNS0(bogus) || len(m.Extra) != 2 {
		t.Errorf("additional section %v", m.Extra)
	}
}

// BenchmarkCheck measures what a lane does with an upstream's response: check that it belongs to
// the question and is simple, or parse it. It also measures the key of a query.
func BenchmarkCheck(b *testing.B) {
	sent, good := sentQuery(b, WithEDNS)
	good.Compress = true
	wire, err := good.Pack()
	if err != nil {
		b.Fatal(err)
	}
	b.Run("simple", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, ok := Simple(sent, wire); !ok {
				b.Fatal("the response is not simple")
			}
		}
	})
	b.Run("parsed", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := Decode(sent, wire); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("key", func(b *testing.B) {
		var room [MaxKey]byte
		b.ReportAllocs()
		for b.Loop() {
			if _, ok := AppendKey(room[:0], sent); !ok {
				b.Fatal("the query has no key")
			}
		}
	})
}

// TestSimplePadding: a padded response (RFC 7830) is simple.
func TestSimplePadding(t *testing.T) {
	sent, m := sentQuery(t, Padded)
	m.Extra = nil
	m.SetEdns0(1232, false)
	m.IsEdns0().Option = []dns.EDNS0{&dns.EDNS0_PADDING{Padding: make([]byte, 100)}}
	m.Compress = true
	wire, err := m.Pack()
	if err != nil {
		t.Fatal(err)
	}
	if r, ok := Simple(sent, wire); !ok || !r.HasOPT || len(r.Cookie) > 0 || len(r.Message) > len(wire)-100 {
		t.Errorf("got %+v, simple %v", r, ok)
	}
}
