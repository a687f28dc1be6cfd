package daemon

import (
	"context"
	"time"

	"github.com/node-dns/node-dns/internal/dns/nameserver"
)

const (
	// loopProbeAgain is how often the upstreams are probed while one of them is left out, which may have stopped looping. Without one there are no
	// periodic probes: each goes on to the root, 33 a second from 5,000 nodes. A loop that begins later shows in the queries that come back.
	loopProbeAgain = 5 * time.Minute
	// loopProbeSoon is how long after a suspicion another one has the upstreams probed again: where nothing is answered every
	// question raises one.
	loopProbeSoon = 10 * time.Second
)

// prober probes the upstreams for loops. One goroutine alone holds it.
type prober struct {
	*Daemon
	suspectAgain time.Time // before which a suspicion does not have them probed
}

func (d *Daemon) watchLoops(ctx context.Context) error { return (&prober{Daemon: d}).watch(ctx) }

// watch probes the plain upstreams when they change, when questions seem to come back, and now and then while one is left out.
func (p *prober) watch(ctx context.Context) error {
	for {
		before := p.loops.Looping()
		changed, err := p.loops.Probe(ctx, p.probed())
		if err != nil {
			return err
		}
		if changed {
			p.logLoops(before, p.loops.Looping())
			p.hint("loop probe")
		}
		if !p.awaitProbe(ctx) {
			return nil
		}
	}
}

// awaitProbe returns when the upstreams are to be probed again; false: ctx has ended.
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

// probed are the servers that any route would have, those that loop included.
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
