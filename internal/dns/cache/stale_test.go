package cache

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/dnsserver"
)

// TestStale: an expired response is served with TTLs of 0 and an Extended DNS Error, and
// refreshed once for any number of clients. The new response replaces it; a failure does not. In
// the end it is too old.
func TestStale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		world := &upstream{t: t, records: map[string]string{"www.example. A": "www.example. 10 IN A 192.0.2.1"}}
		asked, isDown, slow := 0, false, time.Duration(0)
		c := New(Config{Size: 10, Stale: time.Minute, StaleAtOnce: true, Next: dnsserver.HandlerFunc(func(ctx context.Context, q *dnsserver.Query) (*dns.Msg, error) {
			asked++
			time.Sleep(slow)
			if isDown {
				return nil, errors.New("nobody there")
			}
			return world.ServeDNS(ctx, q)
		})})
		www := func() (text string) {
			t.Helper()
			q := query("www.example.", dns.TypeA, flags{})
			m, err := c.ServeDNS(t.Context(), q)
			if err != nil {
				return err.Error()
			}
			if m.IsEdns0() != nil {
				text = "stale "
				if ede, ok := m.IsEdns0().Option[0].(*dns.EDNS0_EDE); !ok || ede.InfoCode != dns.ExtendedErrorCodeStaleAnswer || !q.Cached {
					t.Errorf("%v, cached %v", m, q.Cached)
				}
			}
			a := m.Answer[0].(*dns.A)
			return text + (time.Duration(a.Hdr.Ttl) * time.Second).String() + " " + a.A.String()
		}
		check := func(what, want string, wantAsked int) {
			t.Helper()
			got := www()
			synctest.Wait()
			if got != want || asked != wantAsked {
				t.Errorf("%s: got %s, asked %d times; want %s, %d times", what, got, asked, want, wantAsked)
			}
		}
		check("first", "10s 192.0.2.1", 1)
		time.Sleep(11 * time.Second)
		world.records["www.example. A"] = "www.example. 10 IN A 192.0.2.2"
		slow = time.Second
		check("expired", "stale 0s 192.0.2.1", 2)
		check("while it is asked for", "stale 0s 192.0.2.1", 2)
		time.Sleep(2 * time.Second)
		check("replaced", "9s 192.0.2.2", 2)
		isDown = true
		time.Sleep(11 * time.Second)
		check("expired again", "stale 0s 192.0.2.2", 3)
		time.Sleep(2 * time.Second)
		check("which nobody replaces", "stale 0s 192.0.2.2", 4)
		time.Sleep(time.Minute)
		check("in the end", "nobody there", 5)
		if s := c.Stats(); s.Stale != 4 || s.Hits != 1 || s.Misses != 2 {
			t.Errorf("got stats %+v", s)
		}
	})
}

// TestNeverStale: without the option, and for a name with its own limit, an expired response is
// refreshed before the client gets an answer. A query without RD refreshes nothing.
func TestNeverStale(t *testing.T) {
	limit := func(dnsname.Name) time.Duration { return 30 * time.Second }
	rows := []struct {
		name      string
		config    Config
		f         flags
		wantStale bool
		wantAsked int
	}{
		{"not configured", Config{}, flags{}, false, 2},
		{"configured", Config{Stale: time.Minute, StaleAtOnce: true}, flags{}, true, 2},
		{"name with a limit", Config{Stale: time.Minute, Limit: limit}, flags{}, false, 2},
		{"without RD", Config{Stale: time.Minute}, flags{noRD: true}, true, 1},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				u := &upstream{t: t, records: map[string]string{"www.example. A": "www.example. 10 IN A 192.0.2.1"}}
				row.config.Next, row.config.Size = u, 10
				c := New(row.config)
				ask(t, c, query("www.example.", dns.TypeA, flags{}))
				time.Sleep(11 * time.Second)
				m := ask(t, c, query("www.example.", dns.TypeA, row.f))
				synctest.Wait()
				if isStale := m.IsEdns0() != nil; isStale != row.wantStale || u.asked != row.wantAsked {
					t.Errorf("stale %v, asked %d times", isStale, u.asked)
				}
			})
		})
	}
}

// TestStaleIsHandedOver: the next process gets the responses that may still be served.
func TestStaleIsHandedOver(t *testing.T) {
	now := time.Now()
	clock := func() time.Time { return now }
	u := &upstream{t: t, records: map[string]string{"www.example. A": "www.example. 10 IN A 192.0.2.1"}}
	taken := func(stale time.Duration) int {
		t.Helper()
		config := Config{Next: u, Size: 10, Now: clock, Stale: stale, StaleAtOnce: true, Go: func(func()) {}}
		first, second := New(config), New(config)
		ask(t, first, query("www.example.", dns.TypeA, flags{}))
		now = now.Add(12 * time.Second)
		n, err := second.Restore(first.Dump(math.MaxInt), 0, nil)
		if err != nil {
			t.Fatal(err)
		}
		if n == 1 {
			m := ask(t, second, query("www.example.", dns.TypeA, flags{}))
			if diff := cmp.Diff(uint32(0), m.Answer[0].Header().Ttl); diff != "" {
				t.Error(diff)
			}
		}
		return n
	}
	if n := taken(0); n != 0 {
		t.Errorf("%d expired entries were restored", n)
	}
	if n := taken(time.Minute); n != 1 {
		t.Errorf("%d stale entries were restored", n)
	}
}

// TestRefetchesAreBounded: names that are used at the end of their lifetime, while the upstream is
// silent about them, cause a limited number of queries at a time. The rest is refreshed later.
func TestRefetchesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const names = 4 * mostRefetches
		var isSilent atomic.Bool
		var pending atomic.Int32
		c := New(Config{Size: 2 * names, MaxBytes: 16 << 20, Prefetch: true, Next: dnsserver.HandlerFunc(func(ctx context.Context, q *dnsserver.Query) (*dns.Msg, error) {
			if isSilent.Load() {
				pending.Add(1)
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return addresses(100)(ctx, q)
		})})
		askAll := func() {
			for i := range names {
				ask(t, c, query(fmt.Sprintf("n%d.example.", i), dns.TypeA, flags{}))
			}
		}
		askAll()
		askAll() // then they are in use
		time.Sleep(91 * time.Second)
		isSilent.Store(true)
		askAll()
		synctest.Wait()
		if n := pending.Load(); n != mostRefetches {
			t.Errorf("%d queries without a client", n)
		}
		time.Sleep(refreshTimeout)
		synctest.Wait()
		isSilent.Store(false)
		askAll()
		synctest.Wait()
		if n := c.Stats().Prefetched; n <= mostRefetches {
			t.Errorf("%d in all", n)
		}
	})
}
