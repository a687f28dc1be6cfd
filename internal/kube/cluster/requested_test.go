package cluster

import (
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/node-dns/node-dns/internal/test/kubetest"
)

// TestRequested: each request is told of once, with what became of it; that nobody wants an answer any more is no failure.
func TestRequested(t *testing.T) {
	fakeTime(t, func(t *testing.T) {
		w, network := newFakeWorld(t)
		var mu sync.Mutex
		codes := map[int]int{}
		w.config.Requested = func(r Request) {
			mu.Lock()
			defer mu.Unlock()
			if r.Host != "192.0.2.6" || r.Method != http.MethodGet {
				t.Errorf("%+v", r)
			}
			codes[r.Code]++
		}
		take := func() map[int]int {
			mu.Lock()
			defer mu.Unlock()
			taken := codes
			codes = map[int]int{}
			return taken
		}
		w.server.Apply(readFixture(t, "node-dns"))
		w.start()
		time.Sleep(time.Minute)
		synctest.Wait()
		// The API has no ServiceImports: it is asked twice in the first minute, and says 404.
		if got, asked := take(), len(w.server.Requests()); len(got) != 2 || got[http.StatusOK] != asked-2 || got[http.StatusNotFound] != 2 || asked < 8 {
			t.Errorf("%v of %d requests", got, asked)
		}

		w.server.SetFaults(kubetest.Faults{Status: http.StatusTooManyRequests})
		w.server.CloseWatches()
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := take(); len(got) != 1 || got[http.StatusTooManyRequests] == 0 {
			t.Errorf("while it refuses: %v", got)
		}

		network.SetDown(true)
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := take(); len(got) != 1 || got[0] == 0 {
			t.Errorf("while it is away: %v", got)
		}

		network.SetDown(false)
		w.server.SetFaults(kubetest.Faults{Hang: true})
		time.Sleep(40 * time.Second) // not long enough for it to be said not to answer
		w.stop()
		synctest.Wait()
		if got := take(); len(got) != 0 {
			t.Errorf("while it is silent, and the watching ends: %v", got)
		}
	})
}
