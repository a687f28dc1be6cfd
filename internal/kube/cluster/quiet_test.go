package cluster

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/node-dns/node-dns/internal/test/kubetest"
)

// requestsSince counts the lists and watches after the first n requests.
func requestsSince(s *kubetest.Server, n int) (lists, watches int) {
	for _, r := range s.Requests()[n:] {
		switch {
		case r.Watch:
			watches++
		case isWholeList(r):
			lists++
		}
	}
	return lists, watches
}

// isWholeList reports whether a request lists all objects of a source, and is not a sample for the
// server's version.
func isWholeList(r kubetest.Request) bool {
	return !r.Watch && !isSample(r) && !isDiscovery(r) && r.Path != "/healthz"
}

// isDiscovery reports whether a request asks which APIs exist.
func isDiscovery(r kubetest.Request) bool {
	return strings.HasSuffix(r.Path, "discovery.k8s.io/v1") || strings.HasSuffix(r.Path, importsGroup+"/"+importsVersion)
}

func isSample(r kubetest.Request) bool {
	return !r.Watch && (strings.Contains(r.Path, "/namespaces/default/") || r.Fields == "metadata.name="+sampleName)
}

// TestBookmarks: bookmarks keep the position of an idle watch recent, so that nothing needs to be
// listed again.
func TestBookmarks(t *testing.T) {
	for _, bookmarks := range []bool{true, false} {
		fakeTime(t, func(t *testing.T) {
			w, _ := newFakeWorld(t)
			w.config.CompareEvery = 1000 * time.Hour
			w.server.Apply(readFixture(t, "node-dns"))
			w.server.SetFaults(kubetest.Faults{NoBookmarks: !bookmarks})
			w.start()
			time.Sleep(10 * time.Second)
			asked := len(w.server.Requests())
			w.server.Compact() // as after many changes elsewhere
			time.Sleep(3 * time.Minute)
			w.server.CloseWatches()
			time.Sleep(3 * time.Minute)
			synctest.Wait()
			lists, watches := requestsSince(w.server, asked)
			if bookmarks && lists > 0 || !bookmarks && lists == 0 || watches == 0 {
				t.Errorf("bookmarks %v: %d lists, %d watches", bookmarks, lists, watches)
			}
			if s := w.watcher.State(); s.Phase != Synced || s.Lost+s.Rewinds > 0 {
				t.Errorf("got state %+v", s)
			}
		})
	}
}

// TestQuiet: while nothing changes there are almost no requests: each source has a watch every five
// to ten minutes, and a list about every hour.
func TestQuiet(t *testing.T) {
	fakeTime(t, func(t *testing.T) {
		w, _ := newFakeWorld(t)
		w.server.Apply(readFixture(t, "node-dns"))
		w.config.Chance = func() float64 { return 0.5 }
		w.start()
		time.Sleep(time.Minute)
		asked := len(w.server.Requests())
		published := w.times()
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		const sources = 3
		if lists, watches := requestsSince(w.server, asked); lists < 20*sources || lists > 24*sources || watches > 24*9*sources {
			t.Errorf("got %d lists and %d watches in a day", lists, watches)
		}
		if s := w.watcher.State(); s.Lost > 0 || s.Rewinds > 0 || w.times() != published {
			t.Errorf("got state %+v, published %d times", s, w.times()-published)
		}
	})
}

// TestLostChanges: a list that checks the watch finds, corrects and reports the changes that a
// watch lost.
func TestLostChanges(t *testing.T) {
	fakeTime(t, func(t *testing.T) {
		w, _ := newKnownWorld(t)
		lost, err := kubetest.Parse(`{apiVersion: v1, kind: Service, metadata: {name: lost, namespace: alpha}, spec: {clusterIP: 10.96.0.99}}`)
		if err != nil {
			t.Fatal(err)
		}
		w.server.Lose(lost[0])
		w.server.LoseDelete("Service", "alpha", "web")
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		if s := w.snapshot(); !hasService("alpha", "lost")(s) || hasService("alpha", "web")(s) {
			t.Error("the lost change was not corrected")
		}
		if s := w.watcher.State(); s.Lost != 2 || !strings.Contains(w.log.String(), "a watch lost changes\" kind=Service objects=2") {
			t.Errorf("%+v\n%s", s, w.log)
		}
	})
}

// TestListsAreSpread: nodes that start together, or that lose their API server together, do not
// list at the same time.
func TestListsAreSpread(t *testing.T) {
	fakeTime(t, func(t *testing.T) {
		w, _ := newFakeWorld(t)
		w.config.SnapshotFile = ""
		w.config.Chance = func() float64 { return 0.9 }
		for _, o := range bigServicesList(2000) {
			w.server.Set(o)
		}
		w.start()
		time.Sleep(850 * time.Millisecond)
		synctest.Wait()
		if lists, _ := requestsSince(w.server, 0); lists != 0 {
			t.Errorf("%d lists at the start", lists)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		asked := len(w.server.Requests())
		w.server.Compact()
		w.server.CloseWatches()
		time.Sleep(8 * time.Second) // 0.9 of the minimum of 10 s
		synctest.Wait()
		services := func() (n int) {
			for _, r := range w.server.Requests()[asked:] {
				if strings.HasSuffix(r.Path, "/services") && isWholeList(r) {
					n++
				}
			}
			return n
		}
		if n := services(); n != 0 {
			t.Errorf("%d lists of 2,000 Services too early", n)
		}
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if n := services(); n != 1 {
			t.Errorf("%d lists of 2,000 Services", n)
		}
	})
}

func bigServicesList(n int) (all []kubetest.Object) {
	for i := range n {
		all = append(all, bigService(i))
	}
	return all
}

// TestSilentStream: HTTP/1.1 has no pings. A stopped proxy went unnoticed for up to 11 minutes,
// while the status was synced.
func TestSilentStream(t *testing.T) {
	for _, row := range []struct {
		name   string
		faults kubetest.Faults
		want   string // part of the error; "": none
	}{
		{"no response", kubetest.Faults{Hang: true}, "the API server does not answer"},
		{"a proxy without a server", kubetest.Faults{Status: 502, Plain: true}, "502 Bad Gateway"},
		{"gateway timeout", kubetest.Faults{Status: 504, Plain: true}, "504 Gateway Timeout"},
		{"quiet server", kubetest.Faults{}, ""},
		{"the server is busy", kubetest.Faults{Status: 429}, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			fakeTime(t, func(t *testing.T) {
				w, _ := newFakeWorld(t)
				w.server.Apply(readFixture(t, "node-dns"))
				w.start()
				w.awaitPhase(Synced)
				w.server.SetFaults(kubetest.Faults{NoBookmarks: true})
				w.server.CloseWatches()
				time.Sleep(30 * time.Second)
				w.awaitPhase(Synced)
				asked := len(w.server.Requests())
				w.server.SetFaults(row.faults)
				time.Sleep(time.Minute)
				synctest.Wait()
				s := w.watcher.State()
				if row.want == "" {
					if lists, watches := requestsSince(w.server, asked); s.Phase != Synced || s.LastError != "" || lists+watches > 0 {
						t.Errorf("got state %+v, %d lists, %d watches", s, lists, watches)
					}
					if n := len(w.server.Requests()) - asked; n > 3 {
						t.Errorf("%d health checks in a minute", n)
					}
				} else if !strings.Contains(s.LastError, row.want) {
					t.Errorf("after one minute: got state %+v", s)
				}
				w.server.SetFaults(kubetest.Faults{})
				w.server.CloseWatches() // also those that hang
				time.Sleep(3 * time.Minute)
				if s := w.watcher.State(); s.Phase != Synced {
					t.Errorf("after the fault: got state %+v", s)
				}
			})
		})
	}
}

// TestSilentWatch: only the watches are silent, and the server answers everything else. Missing
// bookmarks reveal that.
func TestSilentWatch(t *testing.T) {
	fakeTime(t, func(t *testing.T) {
		w, network := newKnownWorld(t)
		time.Sleep(time.Minute)
		network.Freeze()
		w.server.Delete("Service", "alpha", "web")
		time.Sleep(maxSilence + pulseEvery + 20*time.Second)
		synctest.Wait()
		if hasService("alpha", "web")(w.snapshot()) {
			t.Errorf("a deleted Service is still known: %+v", w.watcher.State())
		}
	})
}
