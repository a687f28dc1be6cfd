package daemon

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"maps"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/sync/errgroup"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
)

const (
	// loopProbeTimeout is how long a probe may be on its way back to us.
	loopProbeTimeout = time.Second
	// loopProbeAgain is how often the upstreams are probed while one of them is left out, which may have stopped looping. Without one there are no
	// periodic probes: each goes on to the root, 33 a second from 5,000 nodes. A loop that begins later shows in the queries that come back.
	loopProbeAgain = 5 * time.Minute
	// loopProbeSoon is how long after a suspicion another one has the upstreams probed again: where nothing is answered every
	// question raises one.
	loopProbeSoon = 10 * time.Second
	// loopProbes are on their way at a time: each has a socket, and a configuration may name thousands of servers.
	loopProbes = 8
)

// loops finds the upstreams that send our own queries back to us: a router or another node's dnsmasq that forwards here
// has an address that no list of our own can tell. Each is asked for a name that nobody can guess (128 random bits;
// CoreDNS's predictable one was CVE-2026-26018); when that question comes in, its upstream loops. It is then left out,
// and probed again later. Nothing ends because of it.
type loops struct {
	pending atomic.Int32 // probes on their way; 0 spares every other query the lock

	mu     sync.Mutex                         // guards what follows
	probes map[dnsname.Name]nameserver.Server // on their way
	back   map[nameserver.Server]struct{}     // whose probe of this round came back
	found  map[nameserver.Server]struct{}     // whose probe of the last whole round came back

	dial func(ctx context.Context, server nameserver.Server) (net.Conn, error) // over UDP, as the forwarder does
	// ask sends one probe and returns when it need not be waited for any longer. Nil: over UDP. A seam for tests.
	ask func(ctx context.Context, server nameserver.Server, name string)
}

// isProbe reports whether a query is one of our own probes come back, and takes note.
func (l *loops) isProbe(name dnsname.Name) bool {
	if l.pending.Load() == 0 {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	server, ok := l.probes[name]
	if ok {
		l.back[server] = struct{}{}
	}
	return ok
}

// looping are the servers whose probe came back in the last whole round.
func (l *loops) looping() map[nameserver.Server]struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.found)
}

// probe asks each server once and reports whether the set of those that loop has changed.
func (l *loops) probe(ctx context.Context, servers []nameserver.Server) (changed bool, err error) {
	before := l.looping()
	names := map[dnsname.Name]nameserver.Server{}
	for _, server := range servers {
		name, err := probeName()
		if err != nil {
			return false, err
		}
		names[name] = server
	}
	l.begin(names)
	var sending errgroup.Group
	sending.SetLimit(loopProbes)
	for name, server := range names {
		sending.Go(func() error {
			l.send(ctx, server, name.String())
			return nil
		})
	}
	_ = sending.Wait() // no probe fails
	l.end()
	return !maps.Equal(before, l.looping()), nil
}

func (l *loops) begin(names map[dnsname.Name]nameserver.Server) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.probes, l.back = names, map[nameserver.Server]struct{}{}
	l.pending.Store(int32(len(names)))
}

func (l *loops) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.probes, l.found = nil, l.back
	l.pending.Store(0)
}

// send asks one server and waits for it, or for the time in which a loop would close.
func (l *loops) send(ctx context.Context, server nameserver.Server, name string) {
	if l.ask != nil {
		l.ask(ctx, server, name)
		return
	}
	client := dns.Client{Timeout: loopProbeTimeout}
	socket, err := l.dial(ctx, server)
	if err != nil {
		return
	}
	defer socket.Close()
	conn := &dns.Conn{Conn: socket}
	defer context.AfterFunc(ctx, func() { conn.Close() })() // ExchangeContext waits on when ctx ends
	// What it answers, or that it does not, says nothing: only the question's coming back does.
	_, _, _ = client.ExchangeWithConnContext(ctx, new(dns.Msg).SetQuestion(name, dns.TypeTXT), conn)
}

// probeName is a name below a top-level domain that does not exist, and that no resolver answers by itself as it does
// test. and invalid. (RFC 6761; unbound's default zones).
func probeName() (dnsname.Name, error) {
	var random [16]byte
	if _, err := rand.Read(random[:]); err != nil {
		return dnsname.Name{}, err
	}
	return dnsname.Parse(hex.EncodeToString(random[:]) + probeZone)
}

// probeZone is what the names of probes end in.
const probeZone = ".loop.node-dns."

// prober probes the upstreams for loops. One goroutine alone holds it.
type prober struct {
	*Daemon
	suspectAgain time.Time // before which a suspicion does not have them probed
}

func (d *Daemon) watchLoops(ctx context.Context) error { return (&prober{Daemon: d}).watch(ctx) }

// watch probes the plain upstreams when they change, when questions seem to come back, and now and then while one is left out.
func (p *prober) watch(ctx context.Context) error {
	for {
		before := p.loops.looping()
		changed, err := p.loops.probe(ctx, p.probed())
		if err != nil {
			return err
		}
		if changed {
			p.logLoops(before, p.loops.looping())
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
	if len(p.loops.looping()) == 0 {
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
