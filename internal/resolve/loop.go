package resolve

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"maps"
	"net"
	"sync"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/sync/errgroup"

	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/dns/dnswire"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
)

const (
	// loopProbeTimeout is the time that a probe may take to come back.
	loopProbeTimeout = time.Second
	// loopProbes is the maximum number of concurrent probes. Each needs a socket, and a
	// configuration may have thousands of servers.
	loopProbes = 8
)

// ProbeZone is the suffix of loop probe names.
const ProbeZone = ".loop.node-dns."

// Loops finds upstreams that send our own queries back to us, such as a router or another node's
// dnsmasq that forwards here. Its address alone does not reveal that. Each upstream is queried for
// a name that cannot be guessed (128 random bits; CoreDNS's predictable name was CVE-2026-26018).
// If that query comes in, the upstream loops. It is then not used, and probed again later. The
// daemon keeps running.
type Loops struct {
	mu     sync.Mutex                     // guards the fields below
	probes map[string]nameserver.Server   // in flight, by name
	back   map[nameserver.Server]struct{} // servers whose probe came back in this round
	found  map[nameserver.Server]struct{} // servers whose probe came back in the last complete round

	// Expect makes the listeners call the function for each query until Expect is called with nil.
	Expect func(dnsserver.IsOwn)
	// Dial connects over UDP, as the forwarder does.
	Dial func(ctx context.Context, server nameserver.Server) (net.Conn, error)
	// ask sends one probe and returns when the wait for it is over. nil means over UDP. Tests
	// replace it.
	ask func(ctx context.Context, server nameserver.Server, name string)

	rerouted, suspects chan struct{}
	suspectAgain       time.Time // no suspicion causes a probe before this time; belongs to Watch
}

// NewLoops returns a Loops that can be watched. Expect and Dial must be set.
func NewLoops() *Loops {
	return &Loops{rerouted: make(chan struct{}, 1), suspects: make(chan struct{}, 1)}
}

var _ dnsserver.IsOwn = (*Loops)(nil).isProbe

// isProbe reports whether a query name, in any letter case, is that of a probe in flight, and
// records that it came back.
func (l *Loops) isProbe(name []byte) bool {
	var room [dnswire.MaxName]byte
	text, ok := dnswire.AppendText(room[:0], name)
	if !ok || !bytes.HasSuffix(text, []byte(ProbeZone)) { // saves all other queries the lock
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	server, ok := l.probes[string(text)]
	if ok {
		l.back[server] = struct{}{}
	}
	return ok
}

// Looping returns the servers whose probe came back in the last complete round.
func (l *Loops) Looping() map[nameserver.Server]struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.found)
}

// Probe queries each server once and reports whether the set of looping servers has changed.
func (l *Loops) Probe(ctx context.Context, servers []nameserver.Server) (changed bool) {
	before := l.Looping()
	names := map[string]nameserver.Server{}
	for _, server := range servers {
		names[probeName()] = server
	}
	l.begin(names)
	var sending errgroup.Group
	sending.SetLimit(loopProbes)
	for name, server := range names {
		sending.Go(func() error {
			l.send(ctx, server, name)
			return nil
		})
	}
	_ = sending.Wait() // probes return no errors
	l.end()
	return !maps.Equal(before, l.Looping())
}

func (l *Loops) begin(names map[string]nameserver.Server) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.probes, l.back = names, map[nameserver.Server]struct{}{}
	l.Expect(l.isProbe)
}

func (l *Loops) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.Expect(nil)
	l.probes, l.found = nil, l.back
}

// send sends one probe and waits for the response, for at most the time that a probe may take to
// come back.
func (l *Loops) send(ctx context.Context, server nameserver.Server, name string) {
	if l.ask != nil {
		l.ask(ctx, server, name)
		return
	}
	// The response does not matter. Only the probe's return does.
	_, _ = askOnce(ctx, l.Dial, server, new(dns.Msg).SetQuestion(name, dns.TypeTXT), loopProbeTimeout)
}

// askOnce sends a query to a nameserver and returns its response.
func askOnce(ctx context.Context, dial func(context.Context, nameserver.Server) (net.Conn, error), server nameserver.Server, query *dns.Msg, timeout time.Duration) (*dns.Msg, error) {
	socket, err := dial(ctx, server)
	if err != nil {
		return nil, err
	}
	defer socket.Close()
	conn := &dns.Conn{Conn: socket}
	defer context.AfterFunc(ctx, func() { conn.Close() })() // ExchangeContext does not return when ctx ends
	client := dns.Client{Timeout: timeout}
	response, _, err := client.ExchangeWithConnContext(ctx, query, conn)
	return response, err
}

// probeName returns a random name below a top-level domain that does not exist. Resolvers do not
// answer it by themselves as they do test. and invalid. (RFC 6761; unbound's default zones).
func probeName() string {
	var random [16]byte
	_, _ = rand.Read(random[:]) // never fails; it crashes the program instead (Go 1.24)
	return hex.EncodeToString(random[:]) + ProbeZone
}
