package daemon

import (
	"context"
	"time"

	"github.com/node-dns/node-dns/internal/dns/nameserver"
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

// prober probes the upstreams for loops. Only one goroutine uses it.
type prober struct {
	*Daemon
	suspectAgain time.Time // no suspicion causes a probe before this time
}

func (d *Daemon) watchLoops(ctx context.Context) error { return (&prober{Daemon: d}).watch(ctx) }

// watch probes the plain upstreams when they change, when queries seem to come back, and
// periodically while one is left out.
func (p *prober) watch(ctx context.Context) error {
	for {
		before := p.loops.Looping()
		if p.loops.Probe(ctx, p.probed()) {
			p.logLoops(before, p.loops.Looping())
			p.hint("loop probe")
		}
		if !p.awaitProbe(ctx) {
			return nil
		}
	}
}

// awaitProbe waits until a probe is due. It returns false if ctx ends.
func (p *prober) awaitProbe(ctx context.Context) bool {
	timer := time.NewTimer(loopProbeAgain)
	defer timer.Stop()
	if len(p.loops.Looping()) == 0 {
		timer.Stop()
	}
	for suspects := p.suspects; ; {
		select {
		case <-ctx.Done():
			return false
		case <-p.rerouted:
			return true
		case <-timer.C:
			return true
		case <-suspects:
			wait := max(0, time.Until(p.suspectAgain))
			p.suspectAgain = time.Now().Add(wait + loopProbeSoon)
			timer.Reset(wait)
			suspects = nil
		}
	}
}

// probed returns the servers of all routes, including those left out.
func (d *Daemon) probed() []nameserver.Server {
	var servers []nameserver.Server
	seen := map[nameserver.Server]bool{}
	for _, server := range d.policy().Candidates {
		if !server.TLS && !seen[server] {
			seen[server] = true
			servers = append(servers, server)
		}
	}
	return servers
}
