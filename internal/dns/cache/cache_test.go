package cache

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
)

var upstreamA, upstreamB = nameserver.MustParse("192.0.2.1"), nameserver.MustParse("192.0.2.2")

// flags are the bits of a query that matter to a cache.
type flags struct{ do, cd, noRD bool }

func query(name string, qtype uint16, f flags) *dnsserver.Query {
	msg := new(dns.Msg).SetQuestion(name, qtype)
	msg.CheckingDisabled, msg.RecursionDesired = f.cd, !f.noRD
	if f.do {
		msg.SetEdns0(1232, true)
	}
	q := &dnsserver.Query{Msg: msg, Proto: dnsserver.UDP}
	q.Name, _ = dnsname.Parse(name) // zero if invalid, as in dnsserver
	return q
}

// response makes a response to msg with records in zone-file syntax. Records after a line
// "authority" or "additional" go to that section.
func response(t testing.TB, msg *dns.Msg, rcode int, records string) *dns.Msg {
	t.Helper()
	m := new(dns.Msg).SetRcode(msg, rcode)
	section := &m.Answer
	for line := range strings.Lines(records) {
		switch line = strings.TrimSpace(line); line {
		case "":
		case "authority":
			section = &m.Ns
		case "additional":
			section = &m.Extra
		default:
			rr, err := dns.NewRR(line)
			if err != nil {
				t.Fatalf("record %q: %v", line, err)
			}
			*section = append(*section, rr)
		}
	}
	return m
}

// upstream is a next handler that answers with fixed records per name and type, and counts its
// queries.
type upstream struct {
	t       testing.TB
	records map[string]string // "name TYPE" to records
	rcode   int
	change  func(*dns.Msg)
	asked   int
}

func (u *upstream) ServeDNS(_ context.Context, q *dnsserver.Query) (*dns.Msg, error) {
	u.asked++
	q.AnsweredBy = upstreamA
	first := q.Msg.Question[0]
	m := response(u.t, q.Msg, u.rcode, u.records[strings.ToLower(first.Name)+" "+dns.Type(first.Qtype).String()])
	if u.change != nil {
		u.change(m)
	}
	return m, nil
}

func ask(t testing.TB, c *Cache, q *dnsserver.Query) *dns.Msg {
	t.Helper()
	m, err := c.ServeDNS(t.Context(), q)
	if err != nil {
		t.Fatalf("ServeDNS(%v): %v", q.Msg.Question, err)
	}
	return m
}

func TestTTLsCountDownAndEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := &upstream{t: t, records: map[string]string{"www.example. A": `
			www.example.  300 IN CNAME web.example.
			web.example.   60 IN A 192.0.2.80
			authority
			example.     3600 IN NS ns.example.`}}
		c := New(Config{Next: u, Size: 10})
		ask(t, c, query("www.example.", dns.TypeA, flags{}))

		time.Sleep(59*time.Second + 999*time.Millisecond)
		q := query("WWW.example.", dns.TypeA, flags{})
		got := ask(t, c, q)
		want := response(t, q.Msg, dns.RcodeSuccess, `
			WWW.example.  241 IN CNAME web.example.
			web.example.    1 IN A 192.0.2.80
			authority
			example.     3541 IN NS ns.example.`)
		if diff := cmp.Diff(want.String(), got.String()); diff != "" || !q.Cached {
			t.Errorf("just before the end: cached %v (-want +got):\n%s", q.Cached, diff)
		}

		time.Sleep(time.Millisecond)
		q = query("www.example.", dns.TypeA, flags{})
		if ask(t, c, q); q.Cached || u.asked != 2 {
			t.Errorf("at the end: cached %v, upstream asked %d times", q.Cached, u.asked)
		}
	})
}

// TestNoHitAcrossDOAndCD: each client gets what its own flags ask for, whichever client queried
// first (CVE-2024-0874: CoreDNS gave a response for CD to clients without it).
func TestNoHitAcrossDOAndCD(t *testing.T) {
	all := []flags{{}, {do: true}, {cd: true}, {do: true, cd: true}}
	for _, first := range all {
		for _, second := range all {
			u := &upstream{t: t, records: map[string]string{"a.example. A": "a.example. 60 IN A 192.0.2.1"}}
			c := New(Config{Next: u, Size: 10})
			ask(t, c, query("a.example.", dns.TypeA, first))
			q := query("a.example.", dns.TypeA, second)
			if ask(t, c, q); q.Cached != (first == second) {
				t.Errorf("%+v, then %+v: cached %v", first, second, q.Cached)
			}
		}
	}
}

// TestADPassesAndAADoesNot: no client gets AA, not even the first (RFC 1034 section 4.3.1).
func TestADPassesAndAADoesNot(t *testing.T) {
	u := &upstream{
		t:       t,
		records: map[string]string{"a.example. A": "a.example. 60 IN A 192.0.2.1"},
		change:  func(m *dns.Msg) { m.AuthenticatedData, m.Authoritative = true, true },
	}
	c := New(Config{Next: u, Size: 10})
	for range 3 {
		q := query("a.example.", dns.TypeA, flags{})
		if m := ask(t, c, q); !m.AuthenticatedData || m.Authoritative {
			t.Errorf("cached %v: AD %v, AA %v", q.Cached, m.AuthenticatedData, m.Authoritative)
		}
	}
}

// TestFreshAnswerInQuestionsCase: a new answer is packed like a later one from the cache: its names
// have the letter case of the question, so that a small answer is not truncated for the first
// client.
func TestFreshAnswerInQuestionsCase(t *testing.T) {
	long := strings.Repeat(strings.Repeat("l", 63)+".", 3) + strings.Repeat("m", 53) + ".example."
	u := &upstream{t: t, records: map[string]string{long + " A": long + " 60 IN A 192.0.2.1"}}
	for _, size := range []int{0, 10} {
		c := New(Config{Next: u, Size: size})
		for range 2 {
			q := query(strings.ToUpper(long), dns.TypeA, flags{})
			m := ask(t, c, q)
			m.Compress = true
			if want := 12 + 255 + 4 + 2 + 10 + 4; m.Len() != want || m.Answer[0].Header().Name != q.Msg.Question[0].Name {
				t.Errorf("cached %v: got %d octets, want %d: %v", q.Cached, m.Len(), want, m.Answer)
			}
		}
	}
}

func TestNeverRemembered(t *testing.T) {
	const good = "a.example. 60 IN A 192.0.2.1"
	rows := []struct {
		name    string
		config  Config
		flags   flags
		class   uint16
		rcode   int
		records string
		change  func(*dns.Msg)
	}{
		{name: "REFUSED", rcode: dns.RcodeRefused},
		{name: "FORMERR", rcode: dns.RcodeFormatError},
		{name: "YXDOMAIN", rcode: dns.RcodeYXDomain, records: good},
		{name: "truncated", records: good, change: func(m *dns.Msg) { m.Truncated = true }},
		{name: "TTL 0", records: "a.example. 0 IN A 192.0.2.1"},
		{name: "one of several TTLs is 0", records: good + "\n a.example. 0 IN A 192.0.2.2"},
		{name: "TTL with the highest bit, RFC 2181 section 8", records: "a.example. 4294967295 IN A 192.0.2.1"},
		{name: "NXDOMAIN without SOA", rcode: dns.RcodeNameError},
		{name: "NODATA without SOA", records: ""},
		{name: "referral", records: "authority\n example. 60 IN NS ns.example."},
		{name: "dangling CNAME without SOA", records: "a.example. 60 IN CNAME b.example."},
		{
			name: "NXDOMAIN with the SOA of another zone", rcode: dns.RcodeNameError,
			records: "authority\n victim.test. 60 IN SOA ns.victim.test. h.victim.test. 1 2 3 4 60",
		},
		{
			name: "NXDOMAIN with minimum 0", rcode: dns.RcodeNameError,
			records: "authority\n example. 60 IN SOA ns.example. h.example. 1 2 3 4 0",
		},
		{
			name: "negative, with MaxNegativeTTL below 0", rcode: dns.RcodeNameError, config: Config{MaxNegativeTTL: -1},
			records: "authority\n example. 60 IN SOA ns.example. h.example. 1 2 3 4 60",
		},
		{name: "Size 0", records: good, config: Config{Size: -1}},
		{name: "Limit below 0", records: good, config: Config{Limit: func(dnsname.Name) time.Duration { return -1 }}},
		{name: "Limit below a second", records: good, config: Config{Limit: func(dnsname.Name) time.Duration { return time.Millisecond }}},
		{name: "without RD", records: good, flags: flags{noRD: true}},
		{name: "class CHAOS", records: good, class: dns.ClassCHAOS},
		{name: "larger than MaxBytes", records: good, config: Config{MaxBytes: 100}},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			u := &upstream{t: t, rcode: row.rcode, change: row.change, records: map[string]string{"a.example. A": row.records}}
			row.config.Next = u
			if row.config.Size == 0 {
				row.config.Size = 10
			}
			c := New(row.config)
			for range 2 {
				q := query("a.example.", dns.TypeA, row.flags)
				if row.class != 0 {
					q.Msg.Question[0].Qclass = row.class
				}
				if m := ask(t, c, q); m.Rcode != row.rcode || q.Cached {
					t.Errorf("rcode %d, cached %v", m.Rcode, q.Cached)
				}
			}
			if u.asked != 2 {
				t.Errorf("upstream asked %d times, want 2", u.asked)
			}
		})
	}
}

// TestCappedThoughNotRemembered: the cap also applies to a response that is not cached here,
// because the client may cache it.
func TestCappedThoughNotRemembered(t *testing.T) {
	for name, row := range map[string]struct {
		config  Config
		records string
		want    uint32
	}{
		"referral":          {Config{}, "authority\n example. 604800 IN NS ns.example.", 86400},
		"dangling CNAME":    {Config{MaxTTL: time.Hour}, "a.example. 604800 IN CNAME b.example.", 3600},
		"one TTL is 0":      {Config{}, "a.example. 604800 IN A 192.0.2.1\n a.example. 0 IN A 192.0.2.2", 86400},
		"below the cap":     {Config{}, "authority\n example. 60 IN NS ns.example.", 60},
		"no negative cache": {Config{MaxNegativeTTL: -1}, "authority\n example. 604800 IN SOA ns.example. h.example. 1 2 3 4 60", 604800},
	} {
		t.Run(name, func(t *testing.T) {
			u := &upstream{t: t, records: map[string]string{"a.example. A": row.records}}
			row.config.Next, row.config.Size = u, 10
			m := ask(t, New(row.config), query("a.example.", dns.TypeA, flags{}))
			highest := uint32(0)
			for _, rr := range append(m.Answer, m.Ns...) {
				highest = max(highest, rr.Header().Ttl)
			}
			if highest != row.want {
				t.Errorf("the highest TTL is %d, want %d", highest, row.want)
			}
		})
	}
}

func TestErrorsPassAndAreNotRemembered(t *testing.T) {
	broken := errors.New("out of reach")
	c := New(Config{Size: 10, Next: dnsserver.HandlerFunc(func(context.Context, *dnsserver.Query) (*dns.Msg, error) {
		return nil, broken
	})})
	if m, err := c.ServeDNS(t.Context(), query("a.example.", dns.TypeA, flags{})); m != nil || !errors.Is(err, broken) {
		t.Errorf("got %v, %v", m, err)
	}
	if s := c.Stats(); s.Entries != 0 || s.Misses != 1 {
		t.Errorf("got stats %+v", s)
	}
}

// TestNoResponsePasses: a nil message ("no response" in the Handler contract) is passed on.
func TestNoResponsePasses(t *testing.T) {
	c := New(Config{Size: 10, Next: dnsserver.HandlerFunc(func(context.Context, *dnsserver.Query) (*dns.Msg, error) {
		return nil, nil
	})})
	if m, err := c.ServeDNS(t.Context(), query("a.example.", dns.TypeA, flags{})); m != nil || err != nil {
		t.Errorf("got %v, %v", m, err)
	}
}

// TestNegativeIsForItsQuestionOnly: NXDOMAIN of a name hides neither its other types nor names
// below it (CVE-2026-44687, unbound; and a Service that was queried too early).
func TestNegativeIsForItsQuestionOnly(t *testing.T) {
	u := &upstream{t: t, rcode: dns.RcodeNameError, records: map[string]string{
		"local. A": "authority\n . 60 IN SOA a. b. 1 2 3 4 60",
	}}
	c := New(Config{Next: u, Size: 10})
	ask(t, c, query("local.", dns.TypeA, flags{}))
	for _, q := range []*dnsserver.Query{
		query("x.svc.cluster.local.", dns.TypeA, flags{}),
		query("local.", dns.TypeAAAA, flags{}),
	} {
		if ask(t, c, q); q.Cached {
			t.Errorf("%v answered from NXDOMAIN of local. A", q.Msg.Question[0])
		}
	}
	q := query("local.", dns.TypeA, flags{})
	if m := ask(t, c, q); !q.Cached || m.Rcode != dns.RcodeNameError {
		t.Errorf("cached %v, rcode %d", q.Cached, m.Rcode)
	}
}

// TestStoredResponseIsNobodysToChange: a client's changes to its response do not reach the next
// client.
func TestStoredResponseIsNobodysToChange(t *testing.T) {
	u := &upstream{t: t, records: map[string]string{"a.example. TXT": `
		a.example. 60 IN TXT "one" "two"
		a.example. 60 IN RRSIG TXT 13 2 60 20300101000000 20200101000000 1 example. c2ln
		authority
		example. 60 IN NS ns.example.
		additional
		ns.example. 60 IN A 192.0.2.53`}}
	c := New(Config{Next: u, Size: 10})
	change := func(m *dns.Msg) {
		m.Rcode = dns.RcodeRefused
		m.Answer[0].(*dns.TXT).Txt[0] = "spoilt"
		m.Ns[0].Header().Name = "spoilt."
		m.Extra[0].(*dns.A).A[0] = 6
		m.Answer = append(m.Answer[:1], m.Ns...)
	}
	q := query("a.example.", dns.TypeTXT, flags{do: true})
	m := ask(t, c, q)
	want := m.Copy()
	change(m)
	for range 2 {
		q := query("a.example.", dns.TypeTXT, flags{do: true})
		q.Msg.Id = want.Id
		got := ask(t, c, q)
		if diff := cmp.Diff(want.String(), got.String()); diff != "" || !q.Cached {
			t.Errorf("cached %v (-want +got):\n%s", q.Cached, diff)
		}
		change(got)
	}
}

func TestOPTIsNotStored(t *testing.T) {
	u := &upstream{
		t: t, records: map[string]string{"a.example. A": "a.example. 60 IN A 192.0.2.1"},
		change: func(m *dns.Msg) { m.SetEdns0(4096, true) },
	}
	c := New(Config{Next: u, Size: 10})
	ask(t, c, query("a.example.", dns.TypeA, flags{}))
	q := query("a.example.", dns.TypeA, flags{})
	if m := ask(t, c, q); m.IsEdns0() != nil || !q.Cached {
		t.Errorf("cached %v, OPT %v", q.Cached, m.IsEdns0())
	}
}

func TestQuestionIsTheClients(t *testing.T) {
	u := &upstream{t: t, records: map[string]string{"a.example. A": "a.example. 60 IN A 192.0.2.1"}}
	c := New(Config{Next: u, Size: 10})
	ask(t, c, query("a.example.", dns.TypeA, flags{}))
	q := query("A.exAMPle.", dns.TypeA, flags{noRD: true})
	m := ask(t, c, q)
	if m.Id != q.Msg.Id || m.Question[0] != q.Msg.Question[0] || m.RecursionDesired || !m.Response || !q.Cached {
		t.Errorf("cached %v, got\n%v", q.Cached, m)
	}
}

// TestOddNames: names that are not valid dnsname.Names are cached, too, and belong to their zone.
func TestOddNames(t *testing.T) {
	const odd = `a\000b.corp.example.`
	u := &upstream{t: t, records: map[string]string{odd + " A": odd + " 60 IN A 192.0.2.1"}}
	c := New(Config{Next: u, Size: 10})
	ask(t, c, query(odd, dns.TypeA, flags{}))
	q := query(strings.ToUpper(odd), dns.TypeA, flags{})
	if ask(t, c, q); !q.Cached {
		t.Error("not cached")
	}
	zone := dnsname.MustParse("corp.example")
	if n := c.Flush(func(e Remembered) bool { return e.Name.IsZero() && e.Within(zone) }); n != 1 {
		t.Errorf("%d flushed, want 1", n)
	}
}
