// Package forward asks the upstream nameservers: it picks the route of a query
// by the longest suffix, and asks its servers until one gives a response that can
// be trusted.
//
// It is apart from cache because it remembers servers, never responses, and
// apart from upstream because that package is about which servers a node has
// and where the list came from; here they are only asked. What is known about a
// server is in package health, and one query with its response in package exchange.
//
// Every question takes the same way, from file to file:
//
//	ask.go      a client's question begins a flight, or joins one
//	watch.go    the event loop that owns the flight; lane.go has its mailbox and timers
//	receive.go  what comes for a query: the answer, a refusal, an error
//	life.go     what the flight does next; round.go chooses the server and the way
//	land.go     how it ends: waiters and cache get the result, and late answers are taken
//	try.go      one query to one server; socket.go carries it over UDP
//
// The servers stand in server.go, by domain in routes.go; outage.go knows the domains without a
// server that answers. failure.go says why a question has no answer, status.go how all that is.
//
// The package follows no referral and no CNAME on its own account, so that what one query can cause
// upstream stays bounded (CVE-2020-12667, NXNSAttack).
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

// What zero means in a Config.
const (
	defaultMaxInFlight = 10000 // what OpenShift nodes gave dnsmasq as dns-forward-max
	defaultHedge       = 10 * time.Millisecond
	defaultTryTimeout  = 250 * time.Millisecond
	defaultSilence     = 1500 * time.Millisecond
	defaultDeadline    = 4500 * time.Millisecond // below the 5 s after which glibc asks again (resolv.conf(5), timeout)
)

// SocketsPerQuestion is the number of sockets that one question holds at most, if many are in
// flight. Each try has its own socket and is waited for until the deadline. The last try of a
// silent question is over TCP, and few of those run at a time: that leaves room for probes, checks
// and late answers.
const SocketsPerQuestion = maxTries

// mostLastResorts is how many questions may be asked over TCP at a time only because nothing came over UDP.
const mostLastResorts = 64

// A Route says which nameservers are asked for the names of a domain.
type Route struct {
	// Domain and all below it take this route, unless a longer one matches. The
	// root, and the zero Name, stand for every name.
	Domain dnsname.Name
	// Plain is for the names of one label alone, whatever the Domain (dnsmasq's
	// server=//IP); a route for just that name is stronger.
	Plain bool
	// Servers are asked in this order. A route without servers is a domain whose
	// servers are not known: its queries fail, and never take a shorter route.
	Servers []nameserver.Server
	// Local says that the names are not asked for at all: all that there is of them is
	// known before this package is reached, so that they do not exist (dnsmasq's
	// local=/domain/).
	Local bool
	// Source says where the route came from, for Status. Free text.
	Source string
}

// A Config is what a Forward is made of.
type Config struct {
	// Routes are the first routes; nil means that every query fails until
	// SetRoutes.
	Routes []Route
	// MaxInFlight bounds the number of different questions in flight. Further questions fail at
	// once. If there are several routes, each takes three quarters at most. Waiters that join a
	// question in flight cost nothing upstream; dnsserver bounds them. 0 means 10000.
	MaxInFlight int
	// Hedge and TryTimeout are the shortest and the longest wait for one server before the next is
	// asked as well. The wait follows from the times that the server took before. 0 means 10 ms,
	// and 250 ms.
	Hedge, TryTimeout time.Duration
	// Silence is how long a question lasts when no server of its route says anything after it
	// began, to any question, and no server is known to be there. If all were down before, a
	// question lasts a third of that. 0 means 1.5 s.
	Silence time.Duration
	// Deadline is how long all tries of a question may take together. 0 means 4.5 s.
	Deadline time.Duration
	// RootCAs are the authorities that DNS over TLS servers are checked with; nil
	// means those of the system.
	RootCAs *x509.CertPool
	// Opportunistic asks plain servers over TLS, without a check of their identity, if they speak
	// it. No question waits for that: it goes in the clear meanwhile.
	Opportunistic bool
	// TLSAddr is where a plain server may speak TLS; false: nowhere. nil: port 853 of one that is at port 53, and not on loopback.
	TLSAddr func(nameserver.Server) (netip.AddrPort, bool)
	// Ignore returns an error for a response that does not count, so that another server is asked
	// (dnsmasq's ignore-address). It is called concurrently, and must not change the response. nil
	// accepts all responses.
	Ignore func(*dns.Msg) error
	// UDP is how questions go over UDP.
	UDP exchange.UDP
	// IsOwn reports whether an address is this host's. It is called concurrently. nil: no address
	// is.
	IsOwn func(netip.Addr) bool
	// Suspect is called when questions seem to come back: the asked server asks us the same, or a
	// question with several waiters has no answer. It is called from any goroutine, as often as
	// that happens, and must not block. nil disables it.
	Suspect func()
	// Spent is called with each message over TCP or TLS that came for a client's question, and its
	// octets. It is called concurrently. nil disables it.
	Spent func(client netip.Addr, octets int)
	// Lanes is how many goroutines take the responses, and how many threads they may wait on in the
	// kernel: GOMAXPROCS must be as many more. 0: one goroutine and no thread, and Ask asks nothing.
	Lanes int
	// Answered is given what Ask was answered, from any goroutine, and must not wait for anything. nil: Ask asks nothing.
	Answered func(Reply)
	// Log gets the changes of a server's state. nil means nowhere.
	Log *slog.Logger
	// Changed is called when a server's state has changed. It is called from any goroutine, and
	// must not block. nil disables it.
	Changed func()
}

// A Reply is what an upstream nameserver answers to a question that Ask has asked.
type Reply struct {
	Msg  *dns.Msg         // final, without OPT record but for Extended DNS Errors; nil: it was not parsed
	Wire dnswire.Response // without Msg; its octets are the receiver's until it returns
	From nameserver.Handle
	At   time.Time // when it came
	Tag  uint64    // that of the first query that asked; 0: the Handler did
	// Query is the question as it was sent. It is valid until the receiver returns.
	Query dnsserver.WireQuery
	// Waiting are the queries with that question; it is empty for a late response. The receiver must end all of them before it returns,
	// and set each to nil before it ends it, so that after a panic the rest can be ended.
	Waiting []*dnsserver.PendingQuery
	// Out is flushed after the current batch of responses.
	Out *dnsserver.ResponseBatch
}

// A Forward is a dnsserver.Handler that asks upstream nameservers. All methods
// may be called concurrently.
type Forward struct {
	config  Config // what is constant of it, with what zero means filled in
	dialer  *exchange.Dialer
	seed    maphash.Seed // random: chooses the lane
	threads rawsock.Threads

	opening sync.Mutex // held while the lanes are made
	lanes   atomic.Pointer[[]*lane]
	most    int         // lanes
	closed  atomic.Bool // no lane is made any more

	all     atomic.Bool // every server is asked at once
	udp     atomic.Pointer[exchange.UDP]
	table   atomic.Pointer[table]
	setting sync.Mutex // held while the table is replaced; guards what follows
	routes  []Route    // those of the table, as they were given
	isSet   bool

	opportunistic bool

	outages   outages
	began     time.Time
	darkening sync.Mutex // held while a route's darkness is found out
	hedges    hedges
	flights   flights
	// lastResorts has one for each question that is asked over TCP because nothing came over UDP.
	lastResorts chan struct{}
	work        sync.WaitGroup // lanes, and connections
	counts      counts
	panics      journal.Panics
}

var _ dnsserver.Handler = (*Forward)(nil)

type counts struct {
	asked, unanswered, joined, shed, starved, ignored, overTCP, withoutEDNS, doubted, moved, comebacks atomic.Uint64
}

// New returns a Forward, which holds no sockets until it is asked. Close ends it.
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

// SetMaxInFlight replaces Config.MaxInFlight. What is in flight already stays, also beyond the bound.
func (f *Forward) SetMaxInFlight(n int) {
	if n <= 0 {
		n = defaultMaxInFlight
	}
	f.flights.max.Store(int64(n))
}

// SetUDP replaces Config.UDP, for the questions that are not on their way yet.
func (f *Forward) SetUDP(u exchange.UDP) {
	if u.Size == 0 {
		u.Size = exchange.DefaultUDPSize
	}
	f.udp.Store(&u)
}

// SetAll says whether all servers of a route are asked at once, and the first final
// response counts (dnsmasq's all-servers), not one after the other.
func (f *Forward) SetAll(all bool) { f.all.Store(all) }

// SetOpportunistic replaces Config.Opportunistic. Questions under way end as they began.
func (f *Forward) SetOpportunistic(is bool) {
	f.setting.Lock()
	defer f.setting.Unlock()
	f.opportunistic = is
	for _, s := range f.table.Load().servers {
		s.setUpgrade(f)
	}
}

// Renew makes each new question go upstream by itself, even if an equal one is in flight: the
// response to that one may be older than what the caller has just dropped from the cache. Earlier
// waiters still get it.
func (f *Forward) Renew() {
	f.setting.Lock()
	defer f.setting.Unlock()
	t := *f.table.Load() // a flight belongs to its table
	f.table.Store(&t)
}

// Close fails what is in flight, closes all connections and waits until nothing
// of the Forward runs any more. Queries fail from then on. It may be called again.
func (f *Forward) Close() {
	f.opening.Lock()
	f.closed.Store(true)
	f.opening.Unlock()
	if lanes := f.lanes.Load(); lanes != nil {
		for _, n := range *lanes {
			n.shut()
		}
	}
	for _, s := range f.table.Load().servers {
		s.close()
	}
	f.work.Wait()
}

// DialUDP connects to a plain server as its questions do. It does not wait.
func (f *Forward) DialUDP(ctx context.Context, to nameserver.Server) (net.Conn, error) {
	return exchange.DialUDP(ctx, to, *f.udp.Load())
}
