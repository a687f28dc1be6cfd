package cache

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"
)

// FuzzHit looks up a response with random TTLs, waits a random time, and looks it up again, parsed
// and in wire format. Both must agree. The TTL of a hit is above 0 and at most the original minus
// the elapsed time. The response never outlives its smallest TTL. Changes that the client made to
// the earlier response are not visible.
func FuzzHit(f *testing.F) {
	f.Add(uint32(60), uint32(30), uint32(300), uint16(59000), uint16(1000), false)
	f.Add(uint32(1), uint32(1), uint32(1), uint16(999), uint16(1), true)
	f.Add(uint32(0), uint32(1<<31), uint32(1<<31-1), uint16(0), uint16(0), true)
	f.Fuzz(func(t *testing.T, ttl1, ttl2, minimum uint32, wait1, wait2 uint16, negative bool) {
		now := time.Now()
		var original *dns.Msg
		u := &upstream{t: t, change: func(m *dns.Msg) {
			m.Answer = []dns.RR{&dns.A{Hdr: header(m.Question[0].Name, dns.TypeA, ttl1), A: []byte{192, 0, 2, 1}}}
			m.Ns = []dns.RR{&dns.SOA{Hdr: header("example.", dns.TypeSOA, ttl2), Ns: "a.", Mbox: "b.", Minttl: minimum}}
			if negative {
				m.Answer, m.Rcode = nil, dns.RcodeNameError
			}
			original = m.Copy()
		}}
		c := New(Config{Next: u, Size: 10, Now: func() time.Time { return now }})
		spoil(ask(t, c, query("a.example.", dns.TypeA, flags{})))
		var passed time.Duration
		for _, wait := range []uint16{wait1, wait2} {
			now = now.Add(time.Duration(wait) * time.Millisecond)
			passed += time.Duration(wait) * time.Millisecond
			q := query("a.example.", dns.TypeA, flags{})
			hit := sameBothWays(t, c, q)
			if !q.Cached {
				return
			}
			smallest := min(ttl2, ttl1)
			if negative {
				smallest = min(ttl2, minimum)
			}
			if passed >= time.Duration(smallest)*time.Second || smallest > 1<<31-1 {
				t.Fatalf("hit after %v, smallest TTL %d", passed, smallest)
			}
			checkHit(t, original, hit, uint32(passed/time.Second))
			spoil(hit)
		}
	})
}

func header(name string, rrtype uint16, ttl uint32) dns.RR_Header {
	return dns.RR_Header{Name: name, Rrtype: rrtype, Class: dns.ClassINET, Ttl: ttl}
}

// checkHit compares the hit with the upstream response: everything except the TTLs is equal.
func checkHit(t *testing.T, original, hit *dns.Msg, age uint32) {
	t.Helper()
	original, compared := original.Copy(), hit.Copy()
	for _, pair := range [][2][]dns.RR{{original.Answer, compared.Answer}, {original.Ns, compared.Ns}} {
		if len(pair[0]) != len(pair[1]) {
			t.Fatalf("%d records became %d", len(pair[0]), len(pair[1]))
		}
		for i := range pair[0] {
			was, is := pair[0][i].Header(), pair[1][i].Header()
			if is.Ttl == 0 || is.Ttl > was.Ttl-age {
				t.Fatalf("TTL %d became %d after %d s", was.Ttl, is.Ttl, age)
			}
			was.Ttl, is.Ttl = 0, 0
		}
	}
	original.Id = compared.Id
	if diff := cmp.Diff(original.String(), compared.String()); diff != "" {
		t.Fatalf("changed (-stored +hit):\n%s", diff)
	}
}

// spoil changes a response in ways that a client may.
func spoil(m *dns.Msg) {
	m.Rcode = dns.RcodeRefused
	for _, rr := range m.Ns {
		rr.Header().Name, rr.Header().Ttl = "spoilt.", 1<<31-1
	}
	for _, rr := range m.Answer {
		rr.(*dns.A).A[0] = 6
	}
	m.Answer = append(m.Answer[:0], m.Ns...)
}
