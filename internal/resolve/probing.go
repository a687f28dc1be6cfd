package resolve

import (
	"context"
	"time"

	"github.com/node-dns/node-dns/internal/dns/nameserver"
	"github.com/node-dns/node-dns/internal/sys/supervise"
)

const (
	// loopProbeAgain is the interval between probes while an upstream is left out, because it may
	// have stopped looping. Otherwise there are no periodic probes: each one reaches the root
	// servers, 33 a second from 5,000 nodes. A later loop is detected by the queries that come
	// back.
	loopProbeAgain = 5 * time.Minute
	// loopProbeSoon is the minimum time between a suspicion and the next probe that one causes.
	// During an outage every query raises a suspicion.
	loopProbeSoon = 10 * time.Second
)

// Watch probes servers when they change, when queries seem to come back, and periodically while one
// is left out. It calls changed when the set of looping servers has changed. It runs in one
// goroutine.
func (l *Loops) Watch(ctx context.Context, servers func() []nameserver.Server, changed func(before, after map[nameserver.Server]struct{})) {
	for {
		before := l.Looping()
		if l.Probe(ctx, servers()) {
			changed(before, l.Looping())
		}
		if !l.awaitProbe(ctx) {
			return
		}
	}
}

// Suspect makes Watch probe soon, because our queries seem to come back.
func (l *Loops) Suspect() { supervise.Wake(l.suspects) }

// Reroute makes Watch probe at once, because the servers have changed.
func (l *Loops) Reroute() { supervise.Wake(l.rerouted) }

// awaitProbe waits until a probe is due. It returns false if ctx ends.
func (l *Loops) awaitProbe(ctx context.Context) bool {
	timer := time.NewTimer(loopProbeAgain)
	defer timer.Stop()
	if len(l.Looping()) == 0 {
		timer.Stop()
	}
	for suspects := l.suspects; ; {
		select {
		case <-ctx.Done():
			return false
		case <-l.rerouted:
			return true
		case <-timer.C:
			return true
		case <-suspects:
			wait := max(0, time.Until(l.suspectAgain))
			l.suspectAgain = time.Now().Add(wait + loopProbeSoon)
			timer.Reset(wait)
			suspects = nil
		}
	}
}
