package cluster

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestHasAllPods: a snapshot claims to know every Pod only while that is true.
func TestHasAllPods(t *testing.T) {
	const node, all = false, true
	rows := []struct {
		name          string
		before, after bool // whether all Pods are watched, before and after a restart
		api           bool // whether the API server is up after the restart
		denied        bool // whether Pods were forbidden before the restart
		want          bool
	}{
		{"all Pods", all, all, true, false, true},
		{"Pods of the node", node, node, true, false, false},
		{"all Pods, from disk", all, all, false, false, true},
		{"Pods of the node on disk, now all", node, all, false, false, false},
		{"Pods of the node before, now all", node, all, true, false, true},
		{"all Pods on disk, forbidden before", all, all, false, true, false},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			fakeTime(t, func(t *testing.T) {
				w, network := newFakeWorld(t)
				w.config.Features, w.config.NodeName = Features{NodePods: true, AllPods: row.before}, "n1"
				w.server.Apply(readFixture(t, "node-dns"))
				w.start()
				time.Sleep(time.Minute)
				synctest.Wait()
				if row.denied {
					w.server.Deny("list", "pods")
					w.server.Deny("watch", "pods")
					w.server.CloseWatches()
					time.Sleep(time.Minute)
				}
				w.stop()
				w.config.Features.AllPods = row.after
				network.SetDown(!row.api)
				w.start()
				time.Sleep(time.Minute)
				synctest.Wait()
				if s := w.snapshot(); s == nil || s.HasAllPods() != row.want || s.IsStale() == row.api {
					t.Errorf("%+v\n%s", w.watcher.State(), w.log)
				}
			})
		})
	}
}

// TestHasAllPodsByRight: the right to Pods is granted and revoked while nothing else changes.
func TestHasAllPodsByRight(t *testing.T) {
	fakeTime(t, func(t *testing.T) {
		w, _ := newFakeWorld(t)
		w.config.Features.AllPods = true
		w.server.Apply(readFixture(t, "node-dns"))
		w.server.Deny("list", "pods")
		w.start()
		check := func(what string, want bool) {
			t.Helper()
			time.Sleep(time.Minute)
			synctest.Wait()
			if s := w.snapshot(); s == nil || s.HasAllPods() != want || w.watcher.State().Phase != Synced {
				t.Errorf("%s: %+v", what, w.watcher.State())
			}
		}
		check("denied from the start", false)
		w.server.Grant("list", "pods")
		check("granted", true)
		w.server.Deny("list", "pods")
		w.server.Deny("watch", "pods")
		w.server.CloseWatches()
		check("taken away", false)
		w.server.Grant("list", "pods")
		w.server.Grant("watch", "pods")
		check("granted again", true)
		w.stop()
	})
}
