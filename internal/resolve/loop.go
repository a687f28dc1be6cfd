package resolve

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
	// loopProbes are on their way at a time: each has a socket, and a configuration may name thousands of servers.
	loopProbes = 8
)

// Loops finds the upstreams that send our own queries back to us: a router or another node's dnsmasq that forwards here
// has an address that no list of our own can tell. Each is asked for a name that nobody can guess (128 random bits;
// CoreDNS's predictable one was CVE-2026-26018); when that question comes in, its upstream loops. It is then left out,
// and probed again later. Nothing ends because of it.
type Loops struct {
	pending atomic.Int32 // probes on their way; 0 spares every other query the lock

	mu     sync.Mutex                         // guards what follows
	probes map[dnsname.Name]nameserver.Server // on their way
	back   map[nameserver.Server]struct{}     // whose probe of this round came back
	Found  map[nameserver.Server]struct{}     // whose probe of the last whole round came back

	Dial func(ctx context.Context, server nameserver.Server) (net.Conn, error) // over UDP, as the forwarder does
	// ask sends one probe and returns when it need not be waited for any longer. Nil: over UDP. A seam for tests.
	ask func(ctx context.Context, server nameserver.Server, name string)
}

// IsProbe reports whether a query is one of our own probes come back, and takes note.
func (l *Loops) IsProbe(name dnsname.Name) bool {
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

// Looping are the servers whose probe came back in the last whole round.
func (l *Loops) Looping() map[nameserver.Server]struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.Found)
}

// Probe asks each server once and reports whether the set of those that loop has changed.
func (l *Loops) Probe(ctx context.Context, servers []nameserver.Server) (changed bool, err error) {
	before := l.Looping()
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
	return !maps.Equal(before, l.Looping()), nil
}

func (l *Loops) begin(names map[dnsname.Name]nameserver.Server) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.probes, l.back = names, map[nameserver.Server]struct{}{}
	l.pending.Store(int32(len(names)))
}

func (l *Loops) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.probes, l.Found = nil, l.back
	l.pending.Store(0)
}

// send asks one server and waits for it, or for the time in which a loop would close.
func (l *Loops) send(ctx context.Context, server nameserver.Server, name string) {
	if l.ask != nil {
		l.ask(ctx, server, name)
		return
	}
	client := dns.Client{Timeout: loopProbeTimeout}
	socket, err := l.Dial(ctx, server)
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
	return dnsname.Parse(hex.EncodeToString(random[:]) + ProbeZone)
}
