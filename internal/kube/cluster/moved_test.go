package cluster

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestSavedOfTheClusterBefore: the state of one cluster is not saved as another's. The kubeconfig
// was replaced, the new server never answered, and the next start served the old cluster's names as
// the new one's.
func TestSavedOfTheClusterBefore(t *testing.T) {
	fakeTime(t, func(t *testing.T) {
		w, network := newKnownWorld(t)
		network.SetDown(true)
		other := bytes.Replace([]byte(readFile(t, w.config.Kubeconfig)), []byte("192.0.2.6"), []byte("192.0.2.7"), 1)
		if err := os.WriteFile(w.config.Kubeconfig, other, 0o600); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if !strings.Contains(w.log.String(), "has another API server") {
			t.Fatalf("got log\n%s", w.log)
		}
		w.stop()
		w.start()
		time.Sleep(time.Minute)
		synctest.Wait()
		if w.snapshot() != nil || !strings.Contains(w.log.String(), errForeign.Error()) {
			t.Errorf("served: %+v\n%s", w.watcher.State(), w.log)
		}
	})
}

// TestSavedWithoutPodNames: a state without Pod names is not used where endpoints are named after
// Pods. The names would be wrong.
func TestSavedWithoutPodNames(t *testing.T) {
	fakeTime(t, func(t *testing.T) {
		w, network := newKnownWorld(t)
		w.stop()
		w.config.Features.PodNames = true
		network.SetDown(true)
		w.start()
		time.Sleep(time.Minute)
		synctest.Wait()
		if w.snapshot() != nil || !strings.Contains(w.log.String(), errPartial.Error()) {
			t.Errorf("got log\n%s", w.log)
		}
		network.SetDown(false)
		time.Sleep(time.Minute)
		synctest.Wait()
		w.stop()
		network.SetDown(true)
		w.start()
		time.Sleep(time.Minute)
		synctest.Wait()
		if s := w.snapshot(); s == nil || !s.IsStale() {
			t.Errorf("a state with Pod names is not served:\n%s", w.log)
		}
	})
}
