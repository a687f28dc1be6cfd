package cluster

import (
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/node-dns/node-dns/internal/test/kubetest"
)

// TestRequested: each request is reported once, with its result. A request that was canceled
// because its response is no longer needed is not a failure.
func TestRequested(t *testing.T) {
	fakeTime(t, func(t *testing.T) {
		w, network := newFakeWorld(t)
		var mu sync.Mutex
		codes := map[int]int{}
		w.config.Requested = func(r Request) {
			mu.Lock()
			defer mu.Unlock()
			if r.Host != "192.0.2.6" || r.Method != http.MethodGet {
				t.Errorf("got request %+v", r)
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
		// The API has no ServiceImports: it is queried twice in the first minute and answers 404.
		if got, asked := take(), len(w.server.Requests()); len(got) != 2 || got[http.StatusOK] != asked-2 || got[http.StatusNotFound] != 2 || asked < 8 {
			t.Errorf("got codes %v of %d requests", got, asked)
		}

		w.server.SetFaults(kubetest.Faults{Status: http.StatusTooManyRequests})
		w.server.CloseWatches()
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := take(); len(got) != 1 || got[http.StatusTooManyRequests] == 0 {
			t.Errorf("server refuses: got codes %v", got)
		}

		network.SetDown(true)
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := take(); len(got) != 1 || got[0] == 0 {
			t.Errorf("server down: got codes %v", got)
		}

		network.SetDown(false)
		w.server.SetFaults(kubetest.Faults{Hang: true})
		time.Sleep(40 * time.Second) // too short for a timeout
		w.stop()
		synctest.Wait()
		if got := take(); len(got) != 0 {
			t.Errorf("silent server, Watcher stopped: got codes %v", got)
		}
	})
}
