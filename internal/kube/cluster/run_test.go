package cluster

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/node-dns/node-dns/internal/dns/zone"
	"github.com/node-dns/node-dns/internal/sys/journal"
)

// TestPanicInReflector: a panic while reading the API ends the session, and the next session gets
// the cluster's state.
func TestPanicInReflector(t *testing.T) {
	w := newWorld(t)
	w.config.Panics = new(journal.Panics)
	var asked atomic.Int32
	w.config.Chance = func() float64 {
		if asked.Add(1) == 2 { // the first call is the session's, before the list
			panic("out of cheese")
		}
		return 0
	}
	w.start()
	w.await("the state", func(s *zone.Snapshot) bool { return s != nil && !s.IsStale() })
	if n := w.config.Panics.Count(); n != 1 || strings.Count(w.log.String(), "condition=task-panic") != 1 {
		t.Errorf("%d panics counted, log\n%s", n, w.log)
	}
}

// TestPanicInOwner: if the state may be inconsistent, the Watcher returns an error, so that a new
// one starts.
func TestPanicInOwner(t *testing.T) {
	w := newWorld(t)
	w.config.Publish = func(*zone.Snapshot) { panic("out of cheese") }
	if err := New(w.config).Run(t.Context()); !errors.Is(err, errPanicked) {
		t.Errorf("Run: %v", err)
	}
}
