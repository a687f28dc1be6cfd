// Package forward queries the upstream nameservers. It picks the route of a query by the longest
// matching suffix and queries the servers of the route until one gives a trustworthy response.
//
// It is separate from cache because it remembers servers, never responses. It is separate from
// upstream because that package decides which servers a node uses. Package exchange keeps the state
// of one server, and handles one query and its response.
//
// Every question takes the same path through these files:
//
//	ask.go      a client's question begins a flight, or joins one
//	watch.go    the event loop that owns the flight; lane.go has its mailbox and timers
//	receive.go  what arrives for a query: an answer, a refusal or an error
//	life.go     what the flight does next; round.go chooses the server and the transport
//	finish.go   how it ends: waiters and cache get the result; late answers
//	try.go      one query to one server; socket.go carries it over UDP
//
// server.go describes a server and routes.go the servers of each domain. outage.go tracks domains
// without a working server. failure.go explains failed questions and the steps of a question, and
// status.go reports the state.
//
// The package follows no referral and no CNAME itself, so one query causes a bounded number of
// upstream messages (CVE-2020-12667, NXNSAttack).
package forward

import (
	"cmp"
	"context"
	"crypto/x509"
	"hash/maphash"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/dns/dnswire"
	"github.com/node-dns/node-dns/internal/dns/exchange"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
	"github.com/node-dns/node-dns/internal/sys/journal"
	"github.com/node-dns/node-dns/internal/sys/rawsock"
)

// Defaults for zero values in a Config.
const (
	defaultMaxInFlight = 10000 // the dns-forward-max of dnsmasq on OpenShift nodes
	defaultHedge       = 10 * time.Millisecond
	defaultTryTimeout  = 250 * time.Millisecond
	defaultSilence     = 1500 * time.Millisecond
	defaultDeadline    = 4500 * time.Millisecond // below the 5 s after which glibc retries (resolv.conf(5), timeout)
)

// SocketsPerQuestion is the maximum number of sockets of one question. Each try has its own socket
// and waits until the deadline. The last try of an unanswered question uses TCP, and few of those
// run at a time. That leaves sockets for probes, checks and late answers.
const SocketsPerQuestion = maxTries

// mostLastResorts is the maximum number of concurrent TCP queries whose only reason is silence over
// UDP.
const mostLastResorts = 64

// A Route lists the nameservers for the names of a domain.
type Route struct {
	// Domain and every name below it use this route, unless a longer one matches. The root and the
	// zero Name match every name.
	Domain dnsname.Name
	// Plain limits the route to names of one label, whatever the Domain (dnsmasq's server=//IP). A
	// route for such a name itself takes precedence.
	Plain bool
	// Servers are queried in this order. Without servers, queries for the domain fail; they never
	// fall back to a shorter route.
	Servers []nameserver.Server
	// Local marks names that are never queried upstream. Other parts answer the known ones before a
	// query gets here, so all other names do not exist (dnsmasq's local=/domain/).
	Local bool
	// Source is the origin of the route, for Status. Free text.
	Source string
}

// A Config configures a Forward.
type Config struct {
	// Routes are the initial routes. With nil, every query fails until SetRoutes.
	Routes []Route
	// MaxInFlight is the maximum number of different questions in flight. Further questions fail at
	// once. With several routes, each may use three quarters. Waiters that join a question cost
	// nothing upstream; dnsserver limits them. 0 means 10000.
	MaxInFlight int
	// Hedge and TryTimeout are the shortest and the longest wait for one server before the next one
	// is queried as well. The actual wait follows the server's past response times. 0 means 10 ms
	// and 250 ms.
	Hedge, TryTimeout time.Duration
	// Silence is the maximum duration of a question while no server of its route answers any
	// question and no server is known to be alive. If all were down before, it is a third of that.
	// 0 means 1.5 s.
	Silence time.Duration
	// Deadline is the maximum duration of a question, over all tries. 0 means 4.5 s.
	Deadline time.Duration
	// RootCAs verify DNS over TLS servers. nil means the system's CAs.
	RootCAs *x509.CertPool
	// Opportunistic enables TLS without authentication to plain servers that support it. No
	// question waits for the connection: until it exists, questions go unencrypted.
	Opportunistic bool
	// TLSAddr returns the TLS address of a plain server, or false if it has none. nil means port
	// 853 for servers at port 53 that are not on loopback.
	TLSAddr func(nameserver.Server) (netip.AddrPort, bool)
	// Ignore returns an error for a response that does not count; then another server is queried
	// (dnsmasq's ignore-address). It is called concurrently and must not change the response. nil
	// accepts all responses. It is not called for simple responses to questions that Ask began.
	Ignore func(*dns.Msg) error
	// UDP configures queries over UDP.
	UDP exchange.UDP
	// IsOwn reports whether an address belongs to this host. It is called concurrently. nil means
	// that none does.
	IsOwn func(netip.Addr) bool
	// Suspect is called when questions seem to come back: a server sends us the question that we
	// sent it, or a question with several waiters has no answer. It is called from any goroutine,
	// each time, and must not block. nil disables it.
	Suspect func()
	// Spent is called with the size in bytes of each message received over TCP or TLS for a
	// client's question. It is called concurrently. nil disables it.
	Spent func(client netip.Addr, octets int)
	// Lanes is the number of goroutines that receive responses, and the number of threads that they
	// may block in the kernel; raise GOMAXPROCS by as much. 0 means one goroutine and no thread,
	// and disables Ask.
	Lanes int
	// Answered gets the results of Ask, from any goroutine. It must not block. nil disables Ask.
	Answered func(Reply)
	// Log gets the state changes of servers. nil disables it.
	Log *slog.Logger
	// Changed is called when the state of a server has changed, from any goroutine. It must not
	// block. nil disables it.
	Changed func()
}

// A Reply is the answer of an upstream nameserver to a question from Ask.
type Reply struct {
	// Final; its OPT record, if any, has only Extended DNS Errors. nil if the response was not
	// parsed.
	Msg  *dns.Msg
	Wire dnswire.Response // set if Msg is nil; the receiver may use its bytes until it returns
	From nameserver.Handle
	At   time.Time // time of arrival
	Tag  uint64    // the tag of the first query with this question; 0 if it came through the Handler
	// Query is the question as sent. It is valid until the receiver returns.
	Query dnsserver.WireQuery
	// Waiting are the queries with that question. It is empty for a late response. The receiver
	// must end all of them before it returns. It sets each to nil before it ends it, so that the
	// rest can be ended after a panic.
	Waiting []*dnsserver.PendingQuery
	// Out is flushed after the current batch of responses.
	Out *dnsserver.ResponseBatch
}

// A Forward is a dnsserver.Handler that asks upstream nameservers. All methods
// may be called concurrently.
type Forward struct {
	config  Config // its constant parts, with defaults filled in
	dialer  *exchange.Dialer
	seed    maphash.Seed // random, so clients cannot choose the hash of a question
	threads rawsock.Threads

	opening sync.Mutex // held while the lanes are created
	lanes   atomic.Pointer[[]*lane]
	most    int         // number of lanes
	closed  atomic.Bool // no more lanes are created

	all     atomic.Bool // query all servers at once
	udp     atomic.Pointer[exchange.UDP]
	table   atomic.Pointer[table]
	setting sync.Mutex // held while the table is replaced; guards the fields below
	routes  []Route    // of the table, as passed to SetRoutes
	isSet   bool

	opportunistic bool

	outages  outages
	began    time.Time
	reaching sync.Mutex // held while the reach of a route is updated
	hedges   exchange.Hedges
	flights  flights
	// lastResorts has one element for each question that is sent over TCP only because UDP was
	// silent.
	lastResorts chan struct{}
	work        sync.WaitGroup // lanes and connections
	counts      counts
	panics      journal.Panics
}

var _ dnsserver.Handler = (*Forward)(nil)

type counts struct {
	asked, unanswered, joined, shed, starved, ignored, overTCP, withoutEDNS, mismatched, moved, looped atomic.Uint64
}

// New returns a Forward. It opens no sockets before the first question. Close ends it.
func New(c Config) *Forward {
	c.Hedge, c.TryTimeout = cmp.Or(c.Hedge, defaultHedge), cmp.Or(c.TryTimeout, defaultTryTimeout)
	c.Silence, c.Deadline = cmp.Or(c.Silence, defaultSilence), cmp.Or(c.Deadline, defaultDeadline)
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	if c.Lanes == 0 {
		c.Answered = nil
	}
	if c.Changed == nil {
		c.Changed = func() {}
	}
	if c.Ignore == nil {
		c.Ignore = func(*dns.Msg) error { return nil }
	}
	if c.TLSAddr == nil {
		c.TLSAddr = tlsAddress
	}
	if c.IsOwn == nil {
		c.IsOwn = func(netip.Addr) bool { return false }
	}
	if c.Suspect == nil {
		c.Suspect = func() {}
	}
	if c.Spent == nil {
		c.Spent = func(netip.Addr, int) {}
	}
	f := &Forward{
		config: c, opportunistic: c.Opportunistic, threads: rawsock.NewThreads(c.Lanes), most: max(1, c.Lanes),
		seed: maphash.MakeSeed(), began: time.Now(), lastResorts: make(chan struct{}, mostLastResorts),
	}
	f.dialer = exchange.NewDialer(exchange.DialerConfig{Timeout: c.Deadline, RootCAs: c.RootCAs, Work: &f.work, Recovered: f.recovered, Log: c.Log})
	f.SetUDP(c.UDP)
	f.SetMaxInFlight(c.MaxInFlight)
	f.table.Store(&table{})
	f.SetRoutes(c.Routes)
	return f
}

// SetMaxInFlight replaces Config.MaxInFlight. Questions in flight continue, even above the new
// maximum.
func (f *Forward) SetMaxInFlight(n int) {
	if n <= 0 {
		n = defaultMaxInFlight
	}
	f.flights.max.Store(int64(n))
}

// SetUDP replaces Config.UDP for queries that are not sent yet.
func (f *Forward) SetUDP(u exchange.UDP) {
	if u.Size == 0 {
		u.Size = exchange.DefaultUDPSize
	}
	f.udp.Store(&u)
}

// SetAll makes a question go to all servers of its route at once instead of one after the other.
// The first final response wins (dnsmasq's all-servers).
func (f *Forward) SetAll(all bool) { f.all.Store(all) }

// SetOpportunistic replaces Config.Opportunistic. Questions in flight continue with the old
// setting.
func (f *Forward) SetOpportunistic(is bool) {
	f.setting.Lock()
	defer f.setting.Unlock()
	f.opportunistic = is
	for _, s := range f.table.Load().servers {
		s.setUpgrade(f)
	}
}

// Renew makes each new question go upstream on its own, even if an equal one is in flight: the
// response to that one may be older than the cache entries that the caller has just dropped.
// Earlier waiters still get it.
func (f *Forward) Renew() {
	f.setting.Lock()
	defer f.setting.Unlock()
	t := *f.table.Load() // a copy; flights belong to their table
	f.table.Store(&t)
}

// Close fails all questions in flight, closes all connections and waits for all goroutines of the
// Forward. Later queries fail. Close may be called again.
func (f *Forward) Close() {
	f.opening.Lock()
	f.closed.Store(true)
	f.opening.Unlock()
	for _, n := range f.opened() {
		n.shut()
	}
	for _, s := range f.table.Load().servers {
		s.close()
	}
	f.work.Wait()
}

// DialUDP connects to a plain server in the same way as questions do. It does not block.
func (f *Forward) DialUDP(ctx context.Context, to nameserver.Server) (net.Conn, error) {
	return exchange.DialUDP(ctx, to, *f.udp.Load())
}
