package cache

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"testing"
	"time"
	"unique"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"
)

// TestDump: a second Cache answers from the dump of the first, and its TTLs keep counting.
func TestDump(t *testing.T) {
	now := time.Now()
	clock := func() time.Time { return now }
	u := &upstream{t: t, records: map[string]string{
		"www.example. A":    "www.example. 60 IN CNAME a.example.\na.example. 300 IN A 192.0.2.1\nauthority\nexample. 600 IN NS ns.example.\nadditional\nns.example. 600 IN A 192.0.2.53",
		"none.example. A":   "authority\nexample. 30 IN SOA a. b. 1 2 3 4 20",
		"short.example. A":  "short.example. 5 IN A 192.0.2.5",
		`a\000b.example. A`: `a\000b.example. 60 IN A 192.0.2.6`,
	}}
	first := New(Config{Next: u, Size: 100, Now: clock})
	queries := map[string]flags{"www.example.": {do: true}, "none.example.": {cd: true}, "short.example.": {}, `a\000b.example.`: {}}
	want := map[string]*dns.Msg{}
	for name, f := range queries {
		ask(t, first, query(name, dns.TypeA, f))
	}
	now = now.Add(2500 * time.Millisecond)
	data := first.Dump(math.MaxInt)
	now = now.Add(3 * time.Second) // while no process serves
	for name, f := range queries {
		want[name] = ask(t, first, query(name, dns.TypeA, f))
	}

	u.asked = 0
	second := New(Config{Next: u, Size: 100, Now: clock})
	if n, err := second.Restore(data, 3*time.Second, nil); err != nil || n != 3 {
		t.Fatalf("restored %d, %v; want 3, as one has expired", n, err)
	}
	for name, f := range queries {
		q := query(name, dns.TypeA, f)
		got := ask(t, second, q)
		got.Id, want[name].Id = 0, 0
		if diff := cmp.Diff(want[name].String(), got.String()); diff != "" {
			t.Errorf("%s (-before +after):\n%s", name, diff)
		}
		if by := netip.MustParseAddr("192.0.2.1"); q.Cached && q.AnsweredBy.Addr.Addr() != by {
			t.Errorf("%s: the hit is from %v, want %v", name, q.AnsweredBy, by)
		}
		if q.Cached && q.Age != 5500*time.Millisecond {
			t.Errorf("%s: the hit is %v old, want 5.5s", name, q.Age)
		}
	}
	if u.asked != 1 {
		t.Errorf("the upstream was asked %d times, want once", u.asked)
	}
	for name := range queries {
		if q := query(name, dns.TypeA, flags{do: true, cd: true}); ask(t, second, q) != nil && q.Cached {
			t.Errorf("%s: a query with other flags gets the answer", name)
		}
	}
}

// TestRestoreKeeps: entries that keep rejects, and entries that already exist, are skipped.
func TestRestoreKeeps(t *testing.T) {
	u := &upstream{t: t, records: map[string]string{
		"a.example. A": "a.example. 60 IN A 192.0.2.1", "b.example. A": "b.example. 60 IN A 192.0.2.2", "c.example. A": "c.example. 60 IN A 192.0.2.3",
	}}
	first, second := New(Config{Next: u, Size: 10}), New(Config{Next: u, Size: 10})
	for _, name := range []string{"a", "b", "c"} {
		ask(t, first, query(name+".example.", dns.TypeA, flags{}))
	}
	u.records["c.example. A"] = "c.example. 60 IN A 192.0.2.33"
	ask(t, second, query("c.example.", dns.TypeA, flags{}))
	n, err := second.Restore(first.Dump(math.MaxInt), 0, func(e Entry) bool { return e.QName != "b.example." && e.Server == upstreamA })
	if err != nil || n != 1 {
		t.Errorf("restored %d, %v; want 1", n, err)
	}
	if m := ask(t, second, query("c.example.", dns.TypeA, flags{})); m.Answer[0].(*dns.A).A.String() != "192.0.2.33" {
		t.Errorf("an existing entry was replaced: %v", m)
	}
	if data := New(Config{Next: u}).Dump(math.MaxInt); data != nil {
		t.Errorf("a disabled cache dumps %d octets", len(data))
	}
	if n, err := New(Config{Next: u}).Restore(first.Dump(math.MaxInt), 0, nil); n != 0 || err != nil {
		t.Errorf("a disabled cache restored %d, %v", n, err)
	}
}

// TestRestoreWhole: an entry that the cache would never store itself, and would give wrong answers
// from, is skipped; the rest is restored.
func TestRestoreWhole(t *testing.T) {
	now := time.Now()
	message := func(change func(*dns.Msg)) []byte {
		m := new(dns.Msg).SetQuestion("a.example.", dns.TypeA)
		m.Id, m.Response, m.Compress = 0, true, true
		m.Answer = []dns.RR{&dns.A{Hdr: header("a.example.", dns.TypeA, 300), A: []byte{192, 0, 2, 1}}}
		change(m)
		wire, err := m.Pack()
		if err != nil {
			t.Fatal(err)
		}
		return wire
	}
	same := func(*dns.Msg) {}
	for _, row := range []struct {
		name string
		wire []byte
		life time.Duration
		want int
	}{
		{"whole", message(same), 300 * time.Second, 1},
		{"lasts longer than its records", message(same), 301 * time.Second, 0},
		{"no question", message(func(m *dns.Msg) { m.Question = nil }), 300 * time.Second, 0},
		{"two questions", message(func(m *dns.Msg) { m.Question = append(m.Question, m.Question[0]) }), 300 * time.Second, 0},
		{"question in uppercase", message(func(m *dns.Msg) { m.Question[0].Name = "A.example." }), 300 * time.Second, 0},
		{"another class", message(func(m *dns.Msg) { m.Question[0].Qclass = dns.ClassCHAOS }), 300 * time.Second, 0},
		{"message ID is not 0", message(func(m *dns.Msg) { m.Id = 1 }), 300 * time.Second, 0},
		{"a query", message(func(m *dns.Msg) { m.Response = false }), 300 * time.Second, 0},
		{"truncated", message(func(m *dns.Msg) { m.Truncated = true }), 300 * time.Second, 0},
		{"OPT record", message(func(m *dns.Msg) { m.SetEdns0(1232, true) }), 300 * time.Second, 0},
		{"trailing octet", append(message(same), 0), 300 * time.Second, 0},
		{"cut", message(same)[:30], 300 * time.Second, 0},
		{"empty", nil, 300 * time.Second, 0},
	} {
		e := &entry{wire: row.wire, stored: 0, life: row.life, server: unique.Make(upstreamA)}
		c := New(Config{Next: &upstream{t: t}, Size: 10, Now: func() time.Time { return now }})
		if got, err := c.Restore(e.dump(nil, 0), 0, nil); got != row.want || err != nil {
			t.Errorf("%s: restored %d, %v; want %d", row.name, got, err, row.want)
		}
	}
}

// TestDumpLimit: if not everything fits, the newest entries are dumped, each one whole.
func TestDumpLimit(t *testing.T) {
	for _, size := range []int{100, 5000} { // one shard, and many
		u := &upstream{t: t, change: func(m *dns.Msg) {
			m.Answer = []dns.RR{&dns.A{Hdr: header(m.Question[0].Name, dns.TypeA, 300), A: []byte{192, 0, 2, 1}}}
		}}
		first := New(Config{Next: u, Size: size})
		for i := range 100 {
			ask(t, first, query(fmt.Sprintf("n%02d.example.", i), dns.TypeA, flags{}))
		}
		const limit = 1000
		data := first.Dump(limit)
		second := New(Config{Next: u, Size: size})
		n, err := second.Restore(data, 0, nil)
		if err != nil || len(data) > limit || n < 10 || n > 20 {
			t.Errorf("%d octets, %d entries, %v", len(data), n, err)
		}
		if q := query("n99.example.", dns.TypeA, flags{}); size == 100 && ask(t, second, q) != nil && !q.Cached {
			t.Error("the newest entry was not restored")
		}
	}
}

// FuzzRestore: any data is either rejected as a whole, or gives entries that can be dumped and
// restored again. No answer has a TTL of 0 or outlives its records.
func FuzzRestore(f *testing.F) {
	seed := New(Config{Next: &upstream{t: f, records: map[string]string{
		"www.example. A":  "www.example. 60 IN A 192.0.2.1\nauthority\nexample. 600 IN NS ns.example.",
		"none.example. A": "authority\nexample. 30 IN SOA a. b. 1 2 3 4 20",
	}}, Size: 10})
	for _, name := range []string{"www.example.", "none.example."} {
		ask(f, seed, query(name, dns.TypeA, flags{do: true}))
	}
	f.Add(seed.Dump(math.MaxInt), uint16(100))
	f.Add([]byte{}, uint16(0))
	f.Fuzz(func(t *testing.T, data []byte, away uint16) {
		now := time.Now()
		config := Config{Next: &upstream{t: t}, Size: 10, Now: func() time.Time { return now }}
		c := New(config)
		n, err := c.Restore(data, time.Duration(away)*time.Millisecond, nil)
		if err != nil && (!errors.Is(err, ErrDamaged) || n != 0 || c.Stats().Entries != 0) {
			t.Fatalf("%v, and %d entries", err, c.Stats().Entries)
		}
		for e := c.store.shards[0].responses.newest; e != nil; e = e.older {
			age, live := e.age(c.elapsed())
			if !live {
				t.Fatalf("restored an expired entry for %q", e.key().question)
			}
			hit := sameBothWays(t, c, queryOf(t, e.key()))
			eachTTL(hit, func(ttl uint32) uint32 {
				if ttl == 0 || ttl > math.MaxInt32 && e.life > 0 && time.Duration(ttl+age)*time.Second < e.life {
					t.Fatalf("a TTL of %d for %q", ttl, e.key().question)
				}
				return ttl
			})
		}
		again := New(config)
		if _, err := again.Restore(c.Dump(math.MaxInt), 0, nil); err != nil {
			t.Fatalf("cannot restore the second dump: %v", err)
		}
		for e := again.store.shards[0].responses.newest; e != nil; e = e.older {
			was, _ := c.store.get(e.key())
			if was == nil || e.life > was.life || e.server != was.server || !bytes.Equal(e.wire, was.wire) {
				t.Fatalf("restored %v from %v", e, was)
			}
		}
	})
}

// TestUnsealCache: a dump that is damaged, of another version, too old or from the future is
// rejected.
func TestUnsealCache(t *testing.T) {
	const written = time.Hour
	settings := sha256.Sum256([]byte("settings"))
	sealed := Seal([]byte("dump"), settings, written)
	change := func(at int) []byte {
		changed := bytes.Clone(sealed)
		changed[at] ^= 1
		return changed
	}
	for _, test := range []struct {
		name string
		data []byte
		now  time.Duration
		away time.Duration // -1 if rejected
		err  error         // nil if it is rejected because of its age
	}{
		{"at once", sealed, written, 0, nil},
		{"after a second", sealed, written + time.Second, time.Second, nil},
		{"too old", sealed, written + maxAway + 1, -1, nil},
		{"clock before the write time", sealed, written - 1, -1, nil},
		{"another version", change(len(sealMark) - 2), written, -1, errVersion},
		{"another checksum", change(len(sealMark)), written, -1, errDamaged},
		{"another time", change(sealHeader + 7), written, -1, errDamaged},
		{"other settings", change(sealHeader + 8), written, -1, errDamaged},
		{"another octet", change(len(sealed) - 1), written, -1, errDamaged},
		{"cut", sealed[:len(sealed)-1], written, -1, errDamaged},
		{"cut in the header", sealed[:len(sealMark)+3], written, -1, errDamaged},
		{"other content before it", append([]byte("another mark    \n"), sealed...), written, -1, errDamaged},
		{"empty", nil, written, -1, errDamaged},
	} {
		got, err := Unseal(test.data, test.now)
		if taken := err == nil; taken != (test.away >= 0) || taken && (got.Away != test.away || string(got.Dump) != "dump" || got.Settings != settings) {
			t.Errorf("%s: %+v, %v", test.name, got, err)
		}
		if test.err != nil && !errors.Is(err, test.err) {
			t.Errorf("%s: %v, want %v", test.name, err, test.err)
		}
	}
}

// FuzzUnsealCache: Unseal accepts only the output of Seal.
func FuzzUnsealCache(f *testing.F) {
	f.Add(Seal([]byte("dump"), [sha256.Size]byte{1}, time.Minute), int64(time.Minute))
	f.Add([]byte(sealMark), int64(0))
	f.Fuzz(func(t *testing.T, data []byte, now int64) {
		got, err := Unseal(data, time.Duration(now))
		if err == nil && (got.Away < 0 || got.Away > maxAway || !bytes.Equal(data, Seal(got.Dump, got.Settings, time.Duration(now)-got.Away))) {
			t.Errorf("accepted %+v", got)
		}
	})
}
