package dnswire

import (
	"bytes"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
)

func TestAppendLower(t *testing.T) {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	for from := range 9 { // in whole words and around them
		for to := from; to <= len(all); to++ {
			want := make([]byte, 0, to-from)
			for _, c := range all[from:to] {
				if 'A' <= c && c <= 'Z' {
					c += 'a' - 'A'
				}
				want = append(want, c)
			}
			if got := AppendLower([]byte("before"), all[from:to]); string(got) != "before"+string(want) {
				t.Fatalf("got %q for %q", got, all[from:to])
			}
		}
	}
}

// FuzzAppendText: AppendText returns the text of a name's dnsname.Name, and fails exactly when
// there is none.
func FuzzAppendText(f *testing.F) {
	for _, name := range []string{".", "com.", "WWW.Example.com.", "_http._tcp.a-b.", `a\.b.example.`, `a\000.example.`, "*.example.", "*.", "a.*.b.", "a*.b.", "**.b.", strings.Repeat("a.", 127)} {
		wire := make([]byte, MaxName)
		end, err := dns.PackDomainName(name, wire, 0, nil, false)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(wire[:end])
	}
	f.Fuzz(func(t *testing.T, wire []byte) {
		name, end, err := dns.UnpackDomainName(wire, 0)
		if err != nil || end != len(wire) || isCompressed(wire) {
			return
		}
		parsed, err := dnsname.Parse(name)
		text, ok := AppendText([]byte("before"), wire)
		if want := err == nil; ok != want || ok && string(text) != "before"+parsed.String() {
			t.Fatalf("%q: got %q, %v", name, text, ok)
		}
	})
}

func isCompressed(wire []byte) bool {
	for at := 0; at < len(wire); at += 1 + int(wire[at]) {
		if wire[at] >= 0xc0 {
			return true
		}
	}
	return false
}

// FuzzFit: the result of Fit is a message that package dns can read, within the limit, and a prefix
// of the original. Nothing of the answer or authority section is missing unless TC is set, and one
// more record would not have fit.
func FuzzFit(f *testing.F) {
	f.Add(uint8(20), uint8(2), uint8(4), uint16(512))
	f.Add(uint8(200), uint8(0), uint8(0), uint16(1232))
	f.Add(uint8(0), uint8(200), uint8(3), uint16(600))
	f.Add(uint8(1), uint8(1), uint8(255), uint16(512))
	f.Fuzz(func(t *testing.T, answers, authority, additional uint8, limit uint16) {
		whole := new(dns.Msg).SetQuestion("www.example.", dns.TypeTXT)
		whole.Compress = true
		for i := range int(answers) {
			whole.Answer = append(whole.Answer, &dns.TXT{Hdr: header("www.example.", dns.TypeTXT), Txt: []string{strings.Repeat("x", i)}})
		}
		for i := range int(authority) {
			whole.Ns = append(whole.Ns, &dns.NS{Hdr: header("example.", dns.TypeNS), Ns: strings.Repeat("n", i%60+1) + ".example."})
		}
		for range additional {
			whole.Extra = append(whole.Extra, &dns.A{Hdr: header("n.example.", dns.TypeA), A: []byte{192, 0, 2, 1}})
		}
		wire, err := whole.Pack()
		if err != nil {
			t.Fatal(err)
		}
		end := HeaderSize + len("www.example.") + 1 + 4
		room := max(int(limit), end)
		cut := Fit(wire, end, room)
		m := unpack(t, wire, cut)
		switch {
		case cut.End > room:
			t.Fatalf("%d octets, limit %d", cut.End, room)
		case len(wire) <= room:
			if cut.End != len(wire) || cut.Truncated {
				t.Fatalf("%+v of %d octets, limit %d", cut, len(wire), room)
			}
		case len(m.Extra) > 0, cut.Truncated == (len(m.Answer) == len(whole.Answer) && len(m.Ns) == len(whole.Ns)), len(m.Ns) > 0 && len(m.Answer) < len(whole.Answer):
			t.Fatalf("%+v of %d, %d and %d records", cut, answers, authority, additional)
		}
		if cut.Truncated {
			if _, next := Record(wire, cut.End); next <= room {
				t.Fatalf("%+v, but the next record ends at %d, limit %d", cut, next, room)
			}
		}
		if !IsWhole(wire, end) || IsWhole(wire[:len(wire)-1], end) || IsWhole(append(wire, 0), end) {
			t.Fatal("IsWhole does not distinguish whole and cut messages")
		}
	})
}

func header(name string, rrtype uint16) dns.RR_Header {
	return dns.RR_Header{Name: name, Rrtype: rrtype, Class: dns.ClassINET, Ttl: 60}
}

// unpack returns the cut message, parsed.
func unpack(t *testing.T, wire []byte, cut Cut) *dns.Msg {
	t.Helper()
	left := bytes.Clone(wire[:cut.End])
	cut.SetHeader(left, false)
	m := new(dns.Msg)
	if err := m.Unpack(left); err != nil {
		t.Fatal(err)
	}
	if m.Truncated != cut.Truncated || !IsWhole(left, HeaderSize+len("www.example.")+1+4) {
		t.Fatalf("%+v is not whole", cut)
	}
	return m
}

// FuzzIsWhole: IsWhole never panics, and the records of a whole message can be iterated.
func FuzzIsWhole(f *testing.F) {
	f.Add([]byte{0, 0, 0x80, 0, 0, 1, 0, 1, 0, 0, 0, 0, 1, 'a', 0, 0, 1, 0, 1, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 1, 2, 3, 4}, uint16(19))
	f.Fuzz(func(t *testing.T, message []byte, at uint16) {
		if !IsWhole(message, int(at)) {
			return
		}
		for at := int(at); at < len(message); {
			var ttl int
			if ttl, at = Record(message, at); ttl+4 > len(message) || at > len(message) {
				t.Fatalf("%d, %d of %d", ttl, at, len(message))
			}
		}
	})
}
