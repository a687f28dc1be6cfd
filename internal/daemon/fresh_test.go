package daemon

import (
	"context"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/node-dns/node-dns/internal/test/dnstest"
)

// TestStatusIsFresh: a status right after a change used to show the old state until the next hint.
func TestStatusIsFresh(t *testing.T) {
	t.Parallel()
	upstreams := []*dnstest.Server{dnstest.NewServer(t, siteRecords), dnstest.NewServer(t, siteRecords)}
	r := start(t, map[string]string{upstreamPath: upstreamFile(upstreams[1])})
	for i := range 6 {
		upstream := upstreams[i%2]
		write(t, filepath.Join(r.root, upstreamPath), upstreamFile(upstream))
		if got, want := r.servers(), []string{upstream.Addr().String()}; !slices.Equal(got, want) {
			t.Fatalf("change %d: the status names %v, expected %v", i, got, want)
		}
	}
}

// TestLooksAreBounded: a client that requests the status all the time causes at most ten looks a
// second, and a request is not answered by a look that began before it.
func TestLooksAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		f := fresh{asked: make(chan chan struct{})}
		var mu sync.Mutex
		var begun []time.Time
		var following, clients sync.WaitGroup
		following.Go(func() {
			var next time.Time
			for {
				select {
				case first := <-f.asked:
					f.answer(ctx, first, next, func() {
						mu.Lock()
						begun = append(begun, time.Now())
						mu.Unlock()
						time.Sleep(10 * time.Millisecond)
						next = time.Now().Add(defaultLookInterval)
					})
				case <-ctx.Done():
					return
				}
			}
		})
		start := time.Now()
		for i := range 100 {
			clients.Go(func() {
				time.Sleep(time.Duration(i) * time.Millisecond)
				for range 20 {
					asked := time.Now()
					f.wait(ctx)
					mu.Lock()
					last := begun[len(begun)-1]
					mu.Unlock()
					if last.Before(asked) {
						t.Errorf("asked at %v, answered by the look of %v", asked.Sub(start), last.Sub(start))
					}
				}
			})
		}
		clients.Wait()
		if most := int(time.Since(start)/defaultLookInterval) + 1; len(begun) > most || len(begun) < 20 {
			t.Errorf("%d looks in %v", len(begun), time.Since(start))
		}
		cancel()
		f.wait(ctx) // must not block without a follower
		following.Wait()
	})
}
