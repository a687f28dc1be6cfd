package cache

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/dnsserver"
)

// walked returns the responses that Walk shows, as sorted lines.
func walked(c *Cache) (lines []string) {
	c.Walk(func(r Remembered) bool {
		line := fmt.Sprintf("%s %s %s TTL %v age %v", r.QName, dns.TypeToString[r.Type], dns.RcodeToString[r.Rcode], r.TTL, r.Age)
		for _, flag := range []struct {
			is   bool
			word string
		}{{r.IsNegative, " negative"}, {r.DO, " DO"}, {r.CD, " CD"}} {
			if flag.is {
				line += flag.word
			}
		}
		for _, rr := range append(r.Msg().Answer, r.Msg().Ns...) {
			line += " | " + strings.ReplaceAll(rr.String(), "\t", " ")
		}
		lines = append(lines, line)
		return true
	})
	slices.Sort(lines)
	return lines
}

// TestWalk: responses that may be served are shown once each, with the TTLs that a client would
// get. Expired ones are shown only if they may be stale.
func TestWalk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutage(t)
		o.records = map[string]string{
			"www.example. A":    "www.example. 100 IN A 192.0.2.1",
			"www.example. AAAA": "authority\nexample. 50 IN SOA ns.example. h.example. 1 2 3 4 50",
			"a.example. AAAA":   "a.example. 40 IN CNAME www.example.\nauthority\nexample. 50 IN SOA ns.example. h.example. 1 2 3 4 50",
		}
		c := New(Config{Next: o, Size: 5000, Stale: time.Hour})
		for _, q := range []*dnsserver.Query{
			query("www.example.", dns.TypeA, flags{}), query("WWW.example.", dns.TypeA, flags{do: true, cd: true}),
			query("www.example.", dns.TypeAAAA, flags{}), query("a.example.", dns.TypeAAAA, flags{}),
		} {
			ask(t, c, q)
		}
		o.fails = dns.RcodeServerFailure
		ask(t, c, query("bad.example.", dns.TypeA, flags{}))
		o.fails = 0
		soa := "example. %d IN SOA ns.example. h.example. 1 2 3 4 50"
		want := []string{
			"a.example. AAAA NOERROR TTL 40s age 0s negative | a.example. 40 IN CNAME www.example. | " + fmt.Sprintf(soa, 50),
			"bad.example. A SERVFAIL TTL 1s age 0s negative",
			"www.example. A NOERROR TTL 1m40s age 0s DO CD | www.example. 100 IN A 192.0.2.1",
			"www.example. A NOERROR TTL 1m40s age 0s | www.example. 100 IN A 192.0.2.1",
			"www.example. AAAA NOERROR TTL 50s age 0s negative | " + fmt.Sprintf(soa, 50),
		}
		if got := walked(c); !slices.Equal(got, want) {
			t.Errorf("at once:\n%s", strings.Join(got, "\n"))
		}
		time.Sleep(45 * time.Second) // a failure is never stale
		want = []string{
			"a.example. AAAA NOERROR TTL -5s age 45s negative | a.example. 0 IN CNAME www.example. | " + fmt.Sprintf(soa, 0),
			"www.example. A NOERROR TTL 55s age 45s DO CD | www.example. 55 IN A 192.0.2.1",
			"www.example. A NOERROR TTL 55s age 45s | www.example. 55 IN A 192.0.2.1",
			"www.example. AAAA NOERROR TTL 5s age 45s negative | " + fmt.Sprintf(soa, 5),
		}
		if got := walked(c); !slices.Equal(got, want) {
			t.Errorf("after 45 s:\n%s", strings.Join(got, "\n"))
		}
	})
}

// TestWalkLimited: a name with a limit, one of the cluster, is never stale and is not shown once it
// has expired.
func TestWalkLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutage(t)
		o.records = map[string]string{
			"www.example. A":    "www.example. 10 IN A 192.0.2.1",
			"a.cluster.test. A": "a.cluster.test. 10 IN A 192.0.2.2",
		}
		cluster := dnsname.MustParse("cluster.test.")
		c := New(Config{Next: o, Size: 5000, Stale: time.Hour, Limit: func(name dnsname.Name) time.Duration {
			if name.Within(cluster) {
				return 5 * time.Second
			}
			return 0
		}})
		for _, name := range []string{"www.example.", "a.cluster.test."} {
			ask(t, c, query(name, dns.TypeA, flags{}))
		}
		time.Sleep(4 * time.Second)
		want := []string{
			"a.cluster.test. A NOERROR TTL 1s age 4s | a.cluster.test. 1 IN A 192.0.2.2",
			"www.example. A NOERROR TTL 6s age 4s | www.example. 6 IN A 192.0.2.1",
		}
		if got := walked(c); !slices.Equal(got, want) {
			t.Errorf("after 4 s:\n%s", strings.Join(got, "\n"))
		}
		time.Sleep(16 * time.Second)
		want = []string{"www.example. A NOERROR TTL -10s age 20s | www.example. 0 IN A 192.0.2.1"}
		if got := walked(c); !slices.Equal(got, want) {
			t.Errorf("after 20 s:\n%s", strings.Join(got, "\n"))
		}
	})
}

// TestWalkEnds: Walk ends when visit returns false. A disabled cache has nothing to visit.
func TestWalkEnds(t *testing.T) {
	c := New(Config{Next: addresses(60), Size: 5000})
	for i := range 100 {
		ask(t, c, query(fmt.Sprintf("n%d.example.", i), dns.TypeA, flags{}))
	}
	seen := 0
	c.Walk(func(Remembered) bool { seen++; return seen < 7 })
	if seen != 7 {
		t.Errorf("visited %d entries, want 7", seen)
	}
	New(Config{Next: addresses(60)}).Walk(func(r Remembered) bool { t.Error(r); return true })
}

// TestWalkHoldsNothing: visit may call any method, even one that removes all entries. Entries that
// stay are visited once.
func TestWalkHoldsNothing(t *testing.T) {
	const many = 3000
	c := New(Config{Next: addresses(60), Size: 4 * many})
	for i := range many {
		ask(t, c, query(fmt.Sprintf("n%d.example.", i), dns.TypeA, flags{}))
	}
	seen := map[string]int{}
	c.Walk(func(r Remembered) bool {
		if seen[r.QName]++; len(seen) == 10 {
			c.Flush(func(r Remembered) bool { return strings.HasPrefix(r.QName, "n1") })
		}
		ask(t, c, query(fmt.Sprintf("m%d.other.", len(seen)), dns.TypeA, flags{}))
		c.Stats()
		return r.Msg() != nil
	})
	for i := range many {
		name := fmt.Sprintf("n%d.example.", i)
		if n := seen[name]; n > 1 || n == 0 && !strings.HasPrefix(name, "n1") {
			t.Errorf("%s was visited %d times", name, n)
		}
	}
}

// TestFlushStays: a response to a query from before a flush is gone after it, whatever runs
// concurrently.
func TestFlushStays(t *testing.T) {
	var version atomicVersion
	c := New(Config{Size: 5000, Next: dnsserver.HandlerFunc(func(ctx context.Context, q *dnsserver.Query) (*dns.Msg, error) {
		asked := version.load()
		m, err := addresses(60)(ctx, q)
		m.Answer[0].(*dns.A).A = []byte{192, 0, 2, asked}
		return m, err
	})})
	done := make(chan struct{})
	var clients sync.WaitGroup
	for client := range 2 {
		clients.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-done:
					return
				default:
					ask(t, c, query(fmt.Sprintf("n%d.example.", (i*(client+1))%3000), dns.TypeA, flags{}))
				}
			}
		})
	}
	for i := range byte(100) {
		version.store(i)
		c.Flush(nil)
		c.Walk(func(r Remembered) bool {
			if a := r.Msg().Answer[0].(*dns.A).A[3]; a != i {
				t.Errorf("after flush %d: got an old answer, version %d", i, a)
				return false
			}
			return true
		})
	}
	close(done)
	clients.Wait()
}

// atomicVersion is the version of the upstream's answers.
type atomicVersion struct {
	mu sync.Mutex
	n  byte
}

func (v *atomicVersion) load() byte   { v.mu.Lock(); defer v.mu.Unlock(); return v.n }
func (v *atomicVersion) store(n byte) { v.mu.Lock(); defer v.mu.Unlock(); v.n = n }

// BenchmarkBeside measures a hit in wire format during a continuous walk, or a continuous flush
// that matches nothing.
func BenchmarkBeside(b *testing.B) {
	for name, beside := range map[string]func(*Cache){
		"nothing": nil,
		"walk":    func(c *Cache) { c.Walk(func(r Remembered) bool { return r.Msg() != nil }) },
		"flush":   func(c *Cache) { c.Flush(func(Remembered) bool { return false }) },
	} {
		b.Run(name, func(b *testing.B) {
			c, queries := full(b)
			var wire []dnsserver.WireQuery
			for _, q := range queries {
				wire = append(wire, onWire(b, q))
			}
			done := make(chan struct{})
			var group sync.WaitGroup
			if beside != nil {
				group.Go(func() {
					for {
						select {
						case <-done:
							return
						default:
							beside(c)
						}
					}
				})
			}
			buf := make([]byte, 4096)
			b.ResetTimer()
			for i := 0; b.Loop(); i++ {
				if _, ok := c.AppendResponse(buf[:0], wire[i%len(wire)], 0); !ok {
					b.Fatal("not a hit")
				}
			}
			b.StopTimer()
			close(done)
			group.Wait()
		})
	}
}
