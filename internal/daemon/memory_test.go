package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/admin/view"
	"github.com/node-dns/node-dns/internal/dns/cache"
	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/test/lab"
)

const mib = 1 << 20

func TestLimitOfGo(t *testing.T) {
	for name, row := range map[string]struct{ group, own, want int64 }{
		"no limit":                        {0, math.MaxInt64, math.MaxInt64},
		"GOMEMLIMIT alone":                {0, 100 * mib, 100 * mib},
		"limit of the unit":               {500 * mib, math.MaxInt64, 400 * mib},
		"GOMEMLIMIT is lower":             {500 * mib, 300 * mib, 300 * mib},
		"a small limit keeps 32 MiB free": {96 * mib, math.MaxInt64, 64 * mib},
		"a tiny limit keeps half free":    {20 * mib, math.MaxInt64, 10 * mib},
	} {
		if got := limitOfGo(row.group, row.own); got != row.want {
			t.Errorf("%s: %d, expected %d", name, got, row.want)
		}
	}
}

func TestRoomForCache(t *testing.T) {
	for name, row := range map[string]struct{ limit, live, cached, want int64 }{
		"no other memory in use":            {400 * mib, 10 * mib, 10 * mib, 300 * mib},
		"other memory takes half":           {400 * mib, 210 * mib, 10 * mib, 100 * mib},
		"other memory takes all":            {400 * mib, 390 * mib, 10 * mib, 0},
		"the cache has grown":               {400 * mib, 10 * mib, 50 * mib, 300 * mib},
		"the cache uses the rest":           {400 * mib, 320 * mib, 280 * mib, 260 * mib},
		"the cache exceeds a lowered limit": {100 * mib, 320 * mib, 280 * mib, 35 * mib},
	} {
		if got := roomForCache(row.limit, row.live, row.cached); got != row.want {
			t.Errorf("%s: %d, expected %d", name, got, row.want)
		}
	}
}

func TestGCPercent(t *testing.T) {
	for name, row := range map[string]struct {
		live int64
		want int
	}{
		"nothing in use":           {0, 400},
		"less than Go's minimum":   {2 * mib, 400},
		"a node without a cluster": {4 * mib, 300},
		"half of the floor":        {8 * mib, 100},
		"two thirds":               {11 * mib, 50},
		"the floor":                {16 * mib, 50},
		"above":                    {500 * mib, 50},
	} {
		if got := gcPercent(row.live); got != row.want {
			t.Errorf("%s: %d, expected %d", name, got, row.want)
		}
	}
}

// TestHeapFloor: while little memory is in use, garbage is collected when the heap reaches
// heapFloor, not earlier. With more in use, it is collected when the garbage is half of that. With
// a fixed percentage, a heap of 3 MB was collected after each 1.5 MB of garbage.
func TestHeapFloor(t *testing.T) {
	var set []int
	c := collector{Daemon: &Daemon{config: Config{SetGCPercent: func(percent int) int { set = append(set, percent); return 0 }}}}
	for _, live := range []int64{0, 1 * mib, 4 * mib, 4*mib + 1000, 20 * mib, 21 * mib, 3 * mib} {
		c.tune(live)
		if heap := live + live*int64(c.percent)/100; heap > max(heapFloor, live*3/2) {
			t.Errorf("with %d bytes in use garbage is collected at %d", live, heap)
		}
	}
	if want := []int{400, 300, 250, 50, 400}; !slices.Equal(set, want) {
		t.Errorf("set %d, want %d", set, want)
	}
	c.config.SetGCPercent = nil
	c.tune(20 * mib) // GOGC belongs to the admin
}

// TestFitCache: the cache shrinks to its bound and grows again, and each change is logged once.
func TestFitCache(t *testing.T) {
	var log lab.Text
	d := collector{Daemon: &Daemon{log: slog.New(slog.NewTextHandler(&log, nil))}}
	c := cache.New(cache.Config{Size: 10_000, Next: dnsserver.HandlerFunc(func(_ context.Context, q *dnsserver.Query) (*dns.Msg, error) {
		m := new(dns.Msg).SetReply(q.Msg)
		rr, err := dns.NewRR(q.Msg.Question[0].Name + " 300 IN A 192.0.2.80")
		m.Answer = []dns.RR{rr}
		return m, err
	})})
	fill := func() {
		for i := range 5000 {
			name := fmt.Sprintf("n%d.example.", i)
			q := &dnsserver.Query{Msg: new(dns.Msg).SetQuestion(name, dns.TypeA), Name: dnsname.MustParse(name)}
			if _, err := c.ServeDNS(t.Context(), q); err != nil {
				t.Fatal(err)
			}
		}
	}
	fill()
	all := c.Stats()
	const limit = 100 * mib
	half := limit/4*3 - int64(all.Bytes)/2
	for range 3 {
		d.fitCache(c, limit, half+int64(c.Stats().Bytes)) // other memory leaves room for half of the cache
	}
	stats := c.Stats()
	if stats.Bytes > all.Bytes/2 || stats.Bytes < all.Bytes/3 || stats.Entries >= all.Entries {
		t.Errorf("%d entries with %d bytes shrank to %d with %d", all.Entries, all.Bytes, stats.Entries, stats.Bytes)
	}
	fill()
	if got := c.Stats(); got.Bytes > all.Bytes/2 {
		t.Errorf("the cache grows over its bound, to %d bytes", got.Bytes)
	}
	for range 2 {
		d.fitCache(c, limit, int64(c.Stats().Bytes))
	}
	fill()
	if got := c.Stats(); got.Entries != all.Entries {
		t.Errorf("afterwards the cache has %d entries, want %d", got.Entries, all.Entries)
	}
	text := log.String()
	if strings.Count(text, "memory is short") != 1 || strings.Count(text, "has its full size again") != 1 || strings.Count(text, "\n") != 2 {
		t.Errorf("got the log\n%s", text)
	}
}

// TestAfterCollecting: each garbage collection is signaled until ctx ends.
func TestAfterCollecting(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	collected := make(chan struct{}, 1)
	afterCollecting(ctx, collected)
	for range 3 {
		for told := false; !told; {
			runtime.GC()
			select {
			case <-collected:
				told = true
			case <-time.After(time.Millisecond):
			}
		}
	}
	if view.LiveHeap() <= 0 {
		t.Error("no memory is in use")
	}
}
