package cache

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/dns/dnswire"
)

// onWire returns q in the form that dnsserver passes to a WireFunc.
func onWire(t testing.TB, q *dnsserver.Query) dnsserver.WireQuery {
	t.Helper()
	wire, err := q.Msg.Pack()
	if err != nil {
		t.Fatal(err)
	}
	_, end, err := dns.UnpackDomainName(wire, dnswire.HeaderSize)
	if err != nil {
		t.Fatal(err)
	}
	opt := q.Msg.IsEdns0()
	return dnsserver.WireQuery{Msg: wire, Limit: dns.MaxMsgSize, End: end + 4, EDNS: opt != nil, DO: opt != nil && opt.Do()}
}

// queryOf returns the query with the key k.
func queryOf(t testing.TB, k key) *dnsserver.Query {
	t.Helper()
	name, err := k.name()
	if err != nil {
		t.Fatal(err)
	}
	return query(name, k.qtype(), flags{do: k.flags&keyDO != 0, cd: k.flags&keyCD != 0})
}

// sameBothWays looks up a query in wire format and parsed, requires the same answer from the cache
// both times, and returns it.
func sameBothWays(t testing.TB, c *Cache, q *dnsserver.Query) *dns.Msg {
	t.Helper()
	response, ok := c.AppendResponse([]byte("before"), onWire(t, q), 0)
	m := ask(t, c, q)
	if ok != q.Cached {
		t.Fatalf("%v: answered in wire format %v, parsed %v", q.Msg.Question, ok, q.Cached)
	}
	if !ok {
		return m
	}
	got := new(dns.Msg)
	if err := got.Unpack(bytes.TrimPrefix(response, []byte("before"))); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(sections(m), sections(got)); diff != "" || got.Id != m.Id || got.Rcode != m.Rcode {
		t.Fatalf("%v (-parsed +on the wire):\n%s", q.Msg.Question, diff)
	}
	return m
}

func sections(m *dns.Msg) string {
	text := fmt.Sprintln(m.Question)
	for i, section := range [][]dns.RR{m.Answer, m.Ns, m.Extra} {
		for _, rr := range section {
			if rr.Header().Rrtype != dns.TypeOPT {
				text += fmt.Sprintln(i, rr)
			}
		}
	}
	return text
}

// TestWireHeader: the origin of each header bit of a response.
func TestWireHeader(t *testing.T) {
	signed := Config{Size: 10, Next: &upstream{
		t: t, records: map[string]string{"a.example. A": "a.example. 60 IN A 192.0.2.1"},
		change: func(m *dns.Msg) { m.AuthenticatedData, m.Authoritative, m.RecursionAvailable = true, true, false },
	}}
	rows := []struct {
		name   string
		change func(*dns.Msg)
		want   string // flags of the response
	}{
		{"plain", func(*dns.Msg) {}, "qr rd ra"},
		{"without RD", func(m *dns.Msg) { m.RecursionDesired = false }, "qr ra"},
		{"AD for a client that requests it", func(m *dns.Msg) { m.AuthenticatedData = true }, "qr rd ra ad"},
		{"AD for a client that sets DO", func(m *dns.Msg) { m.SetEdns0(1232, true) }, "qr rd ra ad do"},
		{"no AD for EDNS alone", func(m *dns.Msg) { m.SetEdns0(1232, false) }, "qr rd ra opt"},
		{"CD", func(m *dns.Msg) { m.CheckingDisabled = true }, "qr rd ra cd"},
		{"TC, RA and Z of a query are ignored", func(m *dns.Msg) { m.Truncated, m.RecursionAvailable, m.Zero = true, true, true }, "qr rd ra"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			c := New(signed)
			q := query("a.example.", dns.TypeA, flags{})
			row.change(q.Msg)
			first := *q.Msg
			first.RecursionDesired = true
			ask(t, c, &dnsserver.Query{Msg: &first, Name: q.Name})
			response, ok := c.AppendResponse(nil, onWire(t, q), 0)
			m := new(dns.Msg)
			if err := m.Unpack(response); err != nil || !ok || m.Id != q.Msg.Id {
				t.Fatalf("%v, %v, %v", ok, err, m)
			}
			got := strings.TrimSuffix(strings.SplitAfter(m.MsgHdr.String(), "flags: ")[1], ";")
			if opt := m.IsEdns0(); opt != nil && opt.Do() {
				got += " do"
			} else if opt != nil {
				got += " opt"
			}
			if got != row.want {
				t.Errorf("flags %q, want %q", got, row.want)
			}
		})
	}
}

// TestLetterCase: each client gets its own letter case, in the question and in names with the same
// suffix, whichever client queried first and whatever case the upstream uses.
func TestLetterCase(t *testing.T) {
	u := &upstream{t: t, records: map[string]string{"www.example. A": `
		Www.EXAMPLE.  300 IN CNAME cdN.eXample.
		cdN.eXample.   60 IN A 192.0.2.80
		authority
		eXAMPLE.     3600 IN NS ns.Example.
		OTHER.test.  3600 IN NS ns.OTHER.test.`}}
	c := New(Config{Next: u, Size: 10})
	ask(t, c, query("wWw.eXamPle.", dns.TypeA, flags{}))
	q := query("WWW.ExamplE.", dns.TypeA, flags{})
	want := response(t, q.Msg, dns.RcodeSuccess, `
		WWW.ExamplE.  300 IN CNAME cdN.ExamplE.
		cdN.ExamplE.   60 IN A 192.0.2.80
		authority
		ExamplE.     3600 IN NS ns.ExamplE.
		OTHER.test.  3600 IN NS ns.OTHER.test.`)
	if diff := cmp.Diff(sections(want), sections(sameBothWays(t, c, q))); diff != "" || !q.Cached {
		t.Errorf("cached %v (-want +got):\n%s", q.Cached, diff)
	}
	for e := c.store.shards[0].responses.newest; e != nil; e = e.older {
		if n := bytes.Count(bytes.ToLower(e.wire), []byte("example")); n != 1 {
			t.Errorf("the question's name occurs %d times", n)
		}
	}
}

// TestHighest: TTLs in the answer and authority sections are capped, as with dnsmasq's max-ttl.
func TestHighest(t *testing.T) {
	now := time.Now()
	u := &upstream{t: t, records: map[string]string{"a.example. A": `
		a.example. 60 IN A 192.0.2.1
		a.example. 20 IN A 192.0.2.2
		authority
		example. 600 IN NS ns.example.
		additional
		ns.example. 600 IN A 192.0.2.53`}}
	c := New(Config{Next: u, Size: 10, Now: func() time.Time { return now }})
	ask(t, c, query("a.example.", dns.TypeA, flags{}))
	now = now.Add(5 * time.Second)
	for highest, want := range map[uint32]string{0: "55 15 595 595", 30: "30 15 30 595", 1: "1 1 1 595"} {
		response, _ := c.AppendResponse(nil, onWire(t, query("a.example.", dns.TypeA, flags{do: false})), highest)
		m := new(dns.Msg)
		if err := m.Unpack(response); err != nil {
			t.Fatal(err)
		}
		var got []string
		eachTTL(m, func(ttl uint32) uint32 {
			got = append(got, fmt.Sprint(ttl))
			return ttl
		})
		if strings.Join(got, " ") != want {
			t.Errorf("at most %d: %v, want %s", highest, got, want)
		}
	}
}

// TestNoHitOnTheWire: a miss in wire format has no answer and is not counted.
func TestNoHitOnTheWire(t *testing.T) {
	now := time.Now()
	c := New(Config{Next: addresses(60), Size: 10, Now: func() time.Time { return now }})
	ask(t, c, query("a.example.", dns.TypeA, flags{}))
	before := c.Stats()
	miss := func(c *Cache, q *dnsserver.Query) {
		t.Helper()
		if got, ok := c.AppendResponse([]byte("before"), onWire(t, q), 0); ok || string(got) != "before" {
			t.Errorf("%v: %q, %v", q.Msg.Question, got, ok)
		}
	}
	miss(c, query("b.example.", dns.TypeA, flags{}))
	miss(c, query("a.example.", dns.TypeAAAA, flags{}))
	miss(c, query("a.example.", dns.TypeA, flags{do: true}))
	miss(c, query("a.example.", dns.TypeA, flags{cd: true}))
	now = now.Add(time.Minute)
	miss(c, query("a.example.", dns.TypeA, flags{}))
	stale := New(Config{Next: addresses(60), Size: 10, Stale: time.Hour, Go: func(func()) {}, Now: func() time.Time { return now }})
	ask(t, stale, query("a.example.", dns.TypeA, flags{}))
	now = now.Add(time.Minute)
	miss(stale, query("a.example.", dns.TypeA, flags{})) // it must be refreshed
	miss(New(Config{Next: addresses(60)}), query("a.example.", dns.TypeA, flags{}))
	if after := c.Stats(); after != before {
		t.Errorf("%+v became %+v", before, after)
	}
}

// TestTypesThatAreLetters: the type number in the key is not lowered, even if it looks like a
// capital letter: 65 is HTTPS, and 97 is another type.
func TestTypesThatAreLetters(t *testing.T) {
	u := &upstream{t: t, records: map[string]string{"a.example. HTTPS": "a.example. 60 IN HTTPS 1 . alpn=h2"}}
	c := New(Config{Next: u, Size: 10})
	ask(t, c, query("a.example.", dns.TypeHTTPS, flags{}))
	if _, ok := c.AppendResponse(nil, onWire(t, query("a.example.", dns.TypeHTTPS, flags{})), 0); !ok {
		t.Error("got no answer for HTTPS")
	}
	if _, ok := c.AppendResponse(nil, onWire(t, query("a.example.", dns.TypeHTTPS+'a'-'A', flags{})), 0); ok {
		t.Error("type 97 is answered from the entry for HTTPS")
	}
}

// TestUnusable: a response that can be parsed but not packed is cached as a failure, whatever its
// TTL. Before, each query fetched it again: 20 per second, each 64 KiB from upstream, brought down
// the node's DNS.
func TestUnusable(t *testing.T) {
	for _, ttl := range []uint32{0, 60} {
		u := &upstream{t: t, change: func(m *dns.Msg) {
			m.Answer = []dns.RR{&dns.TXT{Hdr: header(m.Question[0].Name, dns.TypeTXT, ttl), Txt: []string{strings.Repeat("x", 256)}}}
		}}
		c := New(Config{Next: u, Size: 10})
		for i := range 3 {
			q := query("a.example.", dns.TypeTXT, flags{})
			if m, err := c.ServeDNS(t.Context(), q); err == nil || q.Cached != (i > 0) {
				t.Errorf("TTL %d, query %d: %v, cached %v", ttl, i+1, m, q.Cached)
			}
		}
		if u.asked != 1 {
			t.Errorf("TTL %d: asked %d times", ttl, u.asked)
		}
	}
}

// TestEntryBytes: the accounted size of an entry is its real size.
func TestEntryBytes(t *testing.T) {
	if size := unsafe.Sizeof(entry{}) + 2*unsafe.Sizeof((*entry)(nil)); size > perEntry {
		t.Errorf("an entry takes %d octets, %d are counted", size, perEntry)
	}
}

// TestHitAllocates: a hit allocates nothing, however much of the response fits.
func TestHitAllocates(t *testing.T) {
	u := &upstream{t: t, change: func(m *dns.Msg) {
		for i := range 60 {
			m.Answer = append(m.Answer, &dns.A{Hdr: header(m.Question[0].Name, dns.TypeA, 60), A: []byte{192, 0, 2, byte(i)}})
		}
	}}
	now := time.Now()
	c := New(Config{Next: u, Size: 5000})
	timed := New(Config{Next: u, Size: 5000, Now: func() time.Time { return now }})
	buf := make([]byte, 4096)
	for _, c := range []*Cache{c, timed} {
		for _, q := range []*dnsserver.Query{query("www.example.", dns.TypeA, flags{}), query("WWW.example.", dns.TypeA, flags{do: true})} {
			ask(t, c, q)
			for _, limit := range []int{512, dns.MaxMsgSize} {
				wire := onWire(t, q)
				wire.Limit = limit
				ok := true
				if n := testing.AllocsPerRun(100, func() {
					now = now.Add(time.Millisecond)
					_, hit := c.AppendResponse(buf[:0], wire, 30)
					ok = ok && hit
				}); n != 0 || !ok {
					t.Errorf("limit %d: %v allocations, hit %v", limit, n, ok)
				}
			}
		}
	}
}

// TestHitsWhileOthersChange: a lookup finds the right entry while others are added and removed.
func TestHitsWhileOthersChange(t *testing.T) {
	c := New(Config{Next: addresses(60), Size: 64})
	var clients, changes sync.WaitGroup
	done := make(chan struct{})
	for range 2 {
		clients.Go(func() {
			buf := make([]byte, 512)
			for i := 0; ; i++ {
				select {
				case <-done:
					return
				default:
				}
				q := onWire(t, query(fmt.Sprintf("n%d.example.", i%100), dns.TypeA, flags{}))
				response, ok := c.AppendResponse(buf[:0], q, 0)
				if ok && (!bytes.HasPrefix(response[dnswire.HeaderSize:], q.Question()) || !dnswire.IsWhole(response, q.End)) {
					t.Errorf("got response %x to query %x", response, q.Msg)
					return
				}
			}
		})
	}
	for change := range 2 {
		changes.Go(func() {
			for i := range 3000 {
				ask(t, c, query(fmt.Sprintf("n%d.example.", (i*(change+1))%100), dns.TypeA, flags{}))
				if i%50 == 0 {
					c.Flush(func(e Remembered) bool { return e.QName != "n1.example." })
				}
			}
		})
	}
	changes.Wait()
	close(done)
	clients.Wait()
}
