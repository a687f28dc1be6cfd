package dnswire_test

import (
	"errors"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnswire"
	"github.com/node-dns/node-dns/internal/test/dnstest"
)

// longName is the longest name that leaves space for labels below it.
const longName = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.b.b.b.b.b.b.b.b.b.b.b.b.b.b.b.b.b.b.b.b.b.b.b.b.b.b.b.b.b.b.b.b.b.b.b.b.b.b.example."

// share is the maximum number of bytes allocated per byte of a message.
const share = 16

// allocated returns the heap memory that f allocates.
func allocated(f func()) int {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return int(after.TotalAlloc - before.TotalAlloc)
}

// TestCost: parsing a message allocates no more memory than its size allows, regardless of its
// content, or rejects it first.
func TestCost(t *testing.T) {
	if testing.Short() {
		t.Skip("hundreds of messages of 64 KiB")
	}
	for what, message := range dnstest.Costly(longName, dns.TypeHIP) {
		var err error
		read := func() { _, err = dnswire.Unpack(message) }
		got := allocated(read)
		if got > share*len(message) { // includes the runtime's own allocations
			got = min(allocated(read), allocated(read))
		}
		if got > share*len(message) {
			t.Errorf("%s: %d octets allocated %d, %.1f per octet (%v)", what, len(message), got, float64(got)/float64(len(message)), err)
		}
	}
}

// TestManyOwners: harmless messages of maximum size are parsed. Each reference to an owner with
// escapes is charged: 4,060 records that shared an owner of 1,000 characters took 757 ns per byte
// to cache.
func TestManyOwners(t *testing.T) {
	octets := strings.Repeat(strings.Repeat(`\001`, 62)+".", 4)
	for _, test := range []struct {
		name, owner string
		records     int
		want        error
	}{
		{"addresses", longName, 4000, nil},
		{"addresses of many upper-case labels", strings.Repeat("A.", 126), 4000, nil},
		{"pointers to a DNS-SD service", `Living\ Room._http._tcp.example.`, 1500, nil},
		{"few records, owner with control characters", octets, 6, nil},
		{"many addresses, owner with control characters", octets, 4000, dnswire.ErrCostly},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := new(dns.Msg).SetQuestion(test.owner, dns.TypeA)
			m.Response = true
			for i := range test.records {
				m.Answer = append(m.Answer, &dns.A{Hdr: dns.RR_Header{Name: test.owner, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 60}, A: []byte{192, 0, byte(i >> 8), byte(i)}})
			}
			wire, err := dnswire.Pack(m)
			if err != nil {
				t.Fatal(err)
			}
			got, err := dnswire.Unpack(wire)
			if !errors.Is(err, test.want) || err == nil && len(got.Answer) != test.records {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestPackToTheEnd: a message may extend to TCP's limit. Package dns requires space for the
// complete owner of the last record before it writes a pointer instead, so messages that ended up
// to 64 bytes before the limit were rejected and the client got SERVFAIL.
func TestPackToTheEnd(t *testing.T) {
	owner := strings.Repeat("a", 63) + ".example."
	for size, want := range map[int]error{65_400: nil, 65_528: nil, 65_535: nil, 65_536: dnswire.ErrTooLong, 65_600: dnswire.ErrTooLong, 66_000: dnswire.ErrTooLong} {
		t.Run(strconv.Itoa(size), func(t *testing.T) {
			m := new(dns.Msg).SetQuestion(owner, dns.TypeA)
			h := dns.RR_Header{Name: owner, Rrtype: dns.TypeNULL, Class: dns.ClassINET}
			first := &dns.RFC3597{Hdr: h}
			m.Answer = []dns.RR{first, &dns.RFC3597{Hdr: h, Rdata: "00"}}
			bare, err := dnswire.Pack(m)
			if err != nil {
				t.Fatal(err)
			}
			first.Rdata = strings.Repeat("00", size-len(bare))
			wire, err := dnswire.Pack(m)
			if !errors.Is(err, want) {
				t.Fatalf("packed: %v", err)
			}
			if err != nil {
				return
			}
			if _, err := dnswire.Unpack(wire); err != nil || len(wire) != size {
				t.Errorf("unpacking %d octets: %v", len(wire), err)
			}
		})
	}
}

func BenchmarkUnpack(b *testing.B) {
	for what, message := range dnstest.Costly(longName, dns.TypeHIP) {
		b.Run(what, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(message)))
			for b.Loop() {
				dnswire.Unpack(message)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(message)), "ns/octet")
		})
	}
}

// FuzzUnpack: Unpack reads the same as package dns, allocates no more memory than the message size
// allows, and the result repacks to an equivalent message.
func FuzzUnpack(f *testing.F) {
	m := new(dns.Msg).SetQuestion("www.example.", dns.TypeMX)
	m.Response = true
	for _, text := range []string{
		"www.example. 60 IN MX 1 a.example.", "www.example. 60 IN SRV 1 2 3 A.example.", `www.example. 60 IN TXT "a\"b" "\000"`, "a\\.b.example. 60 IN SOA a. b. 1 2 3 4 5",
		"www.example. 60 IN HTTPS 1 . alpn=h2", "www.example. 60 IN NSEC a.example. A", "www.example. 60 IN TYPE65280 \\# 2 abcd",
	} {
		rr, err := dns.NewRR(text)
		if err != nil {
			f.Fatal(err)
		}
		m.Answer = append(m.Answer, rr)
	}
	m.SetEdns0(1232, true)
	wire, err := dnswire.Pack(m)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(wire)
	f.Add(dnstest.CompressedHIP(wire)[0][:1000])
	f.Fuzz(func(t *testing.T, message []byte) {
		var m *dns.Msg
		var err error
		if got := allocated(func() { m, err = dnswire.Unpack(message) }); got > share*len(message)+64<<10 {
			t.Fatalf("%d octets allocated %d", len(message), got)
		}
		if err != nil {
			return
		}
		theirs := new(dns.Msg)
		if err := theirs.Unpack(message); err != nil {
			return // package dns is stricter about types that no code here inspects
		}
		if len(m.Answer) != len(theirs.Answer) || len(m.Ns) != len(theirs.Ns) || len(m.Extra) != len(theirs.Extra) || m.MsgHdr != theirs.MsgHdr {
			t.Fatalf("Unpack returned\n%v\npackage dns\n%v", m, theirs)
		}
		packed, err := dnswire.Pack(m)
		if err != nil {
			return // too long without the original compression
		}
		again, err := dnswire.Unpack(packed)
		if err != nil {
			t.Fatalf("%v: %x was packed as %x", err, message, packed)
		}
		if again.String() != m.String() {
			t.Fatalf("Unpack returned\n%v\nand after packing\n%v", m, again)
		}
	})
}
