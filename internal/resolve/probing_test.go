package resolve

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/node-dns/node-dns/internal/dns/nameserver"
)

// TestProbesWithoutReason: unchanged upstreams are probed once if none of them is left out. If one
// is left out, they are probed again.
func TestProbesWithoutReason(t *testing.T) {
	for loops, want := range map[bool]bool{false: false, true: true} {
		synctest.Test(t, func(t *testing.T) {
			l := NewLoops()
			if loops {
				l.found = map[nameserver.Server]struct{}{nameserver.MustParse("192.0.2.53"): {}}
			}
			ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
			defer cancel()
			if got := l.awaitProbe(ctx); got != want {
				t.Errorf("while an upstream loops (%v): probed again: %v", loops, got)
			}
		})
	}
}

// TestSuspicionsAreBounded: however many suspicions there are, the next round of probes waits for
// loopProbeSoon.
func TestSuspicionsAreBounded(t *testing.T) {
	l := NewLoops()
	l.Suspect()
	l.Suspect()
	if !l.awaitProbe(t.Context()) {
		t.Error("the first suspicion causes no immediate probe")
	}
	l.Suspect()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if l.awaitProbe(ctx) {
		t.Error("the second suspicion causes an immediate probe")
	}
	l.Suspect()
	l.Reroute()
	if !l.awaitProbe(t.Context()) {
		t.Error("changed upstreams are not probed immediately")
	}
}
