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
	// loopProbeTimeout is the time that a probe may take to come back.
	loopProbeTimeout = time.Second
	// loopProbes is the maximum number of concurrent probes. Each needs a socket, and a
	// configuration may have thousands of servers.
	loopProbes = 8
)

// Loops finds upstreams that send our own queries back to us, such as a router or another node's
// dnsmasq that forwards here. Its address alone does not reveal that. Each upstream is queried for
// a name that cannot be guessed (128 random bits; CoreDNS's predictable name was CVE-2026-26018).
// If that query comes in, the upstream loops. It is then not used, and probed again later. The
// daemon keeps running.
type Loops struct {
	pending atomic.Int32 // probes in flight; 0 saves all other queries the lock

	mu     sync.Mutex                         // guards the fields below
	probes map[dnsname.Name]nameserver.Server // in flight
	back   map[nameserver.Server]struct{}     // servers whose probe came back in this round
	Found  map[nameserver.Server]struct{}     // servers whose probe came back in the last complete round

	// Dial connects over UDP, as the forwarder does.
	Dial func(ctx context.Context, server nameserver.Server) (net.Conn, error)
	// ask sends one probe and returns when the wait for it is over. nil means over UDP. Tests
	// replace it.
	ask func(ctx context.Context, server nameserver.Server, name string)
}

// IsProbe reports whether a query is one of our own probes, and records that it came back.
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

// Looping returns the servers whose probe came back in the last complete round.
func (l *Loops) Looping() map[nameserver.Server]struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.Found)
}

// Probe queries each server once and reports whether the set of looping servers has changed.
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
	_ = sending.Wait() // probes return no errors
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

// send sends one probe and waits for the response, or as long as a probe may take to come back.
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
	defer context.AfterFunc(ctx, func() { conn.Close() })() // ExchangeContext does not return when ctx ends
	// The response does not matter. Only the probe's return does.
	_, _, _ = client.ExchangeWithConnContext(ctx, new(dns.Msg).SetQuestion(name, dns.TypeTXT), conn)
}

// probeName returns a random name below a top-level domain that does not exist. Resolvers do not
// answer it by themselves as they do test. and invalid. (RFC 6761; unbound's default zones).
func probeName() (dnsname.Name, error) {
	var random [16]byte
	if _, err := rand.Read(random[:]); err != nil {
		return dnsname.Name{}, err
	}
	return dnsname.Parse(hex.EncodeToString(random[:]) + ProbeZone)
}
