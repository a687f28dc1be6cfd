// Package forward asks the upstream nameservers: it picks the route of a query
// by the longest suffix, asks its servers over UDP, TCP or TLS until one gives
// a response that can be trusted, and keeps account of their health.
//
// It is apart from cache because it remembers servers, never responses, and
// apart from upstream because that package is about which servers a node has
// and where the list came from; here they are only asked.
//
// Every question takes the same way, whoever brings it. flight.go has how it begins and who waits for it, life.go what happens to it
// until it is answered, round.go whom it is asked next, try.go one query and its response, and lane.go the event loop that all of this
// runs on.
//
// The package follows no referral and no CNAME on its own account, so that what one query can cause
// upstream stays bounded (CVE-2020-12667, NXNSAttack).
package forward

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/dns/exchange"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
	"github.com/node-dns/node-dns/internal/sys/blockwait"
	"github.com/node-dns/node-dns/internal/sys/journal"
)

// What zero means in a Config.
const (
	defaultMaxInFlight = 10000 // what OpenShift nodes gave dnsmasq as dns-forward-max
	defaultHedge       = 10 * time.Millisecond
	defaultTryTimeout  = 250 * time.Millisecond
	defaultSilence     = 1500 * time.Millisecond
	defaultDeadline    = 4500 * time.Millisecond // below the 5 s after which glibc asks again (resolv.conf(5), timeout)
)

// SocketsPerQuestion is how many sockets one question holds at most, if many are in flight: each try has its own, and is waited for
// until the deadline. Of a question that nobody answers the last try is over TCP, of which there are few at a time: that leaves room for
// probes, checks, and what stays open for late answers.
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
	// MaxInFlight bounds the different questions that are asked at a time; those
	// beyond it fail at once. Where there are several routes each takes three quarters
	// at most. Who waits for a question that is in flight already
	// costs nothing upstream, and is bounded by dnsserver. 0 means 10000.
	MaxInFlight int
	// Hedge and TryTimeout are how long one server is waited for at least, and at most, before the next is asked as well; how
	// long in between depends on the times that it took before. 0 means 10 ms, and 250 ms.
	Hedge, TryTimeout time.Duration
	// Silence is how long a question lasts when no server of its route says anything after it, to whatever question, and none is
	// known to be there; where all were down before it is a third of that. 0 means 1.5 s.
	Silence time.Duration
	// Deadline is how long all tries of a question may take together. 0 means 4.5 s.
	Deadline time.Duration
	// RootCAs are the authorities that DNS over TLS servers are checked with; nil
	// means those of the system.
	RootCAs *x509.CertPool
	// Opportunistic has plain servers asked over TLS, with no check of who they are, where they speak it: without waiting for that,
	// and in the clear where they do not.
	Opportunistic bool
	// TLSAddr is where a plain server may speak TLS; false: nowhere. nil: port 853 of one that is at port 53, and not on loopback.
	TLSAddr func(nameserver.Server) (netip.AddrPort, bool)
	// Ignore says why a response is to count as none, so that another server is
	// asked (dnsmasq's ignore-address); nil says that it is not. It is called
	// concurrently, and must not change the response. nil means that none is ignored.
	Ignore func(*dns.Msg) error
	// UDP is how questions go over UDP.
	UDP exchange.UDP
	// IsOwn reports whether an address is this host's. It is called concurrently. nil means that none is.
	IsOwn func(netip.Addr) bool
	// Suspect is called when questions seem to come back: the server that is asked asks us the same, or a question that several
	// have asked has no answer. It is called from any goroutine, as often as that happens, and must not wait for anything.
	// nil means that nobody wants to know.
	Suspect func()
	// Spent is called with each message over TCP or TLS that came for a client's question, and its octets. It is called concurrently. nil
	// means that nobody wants to know.
	Spent func(client netip.Addr, octets int)
	// Lanes is how many goroutines take the responses, and how many threads they may wait on in the
	// kernel: GOMAXPROCS must be as many more. 0: one goroutine and no thread, and Ask asks nothing.
	Lanes int
	// Answered is given what Ask was answered, from any goroutine, and must not wait for anything. nil: Ask asks nothing.
	Answered func(Reply)
	// Log gets the changes of a server's state. nil means nowhere.
	Log *slog.Logger
	// Changed is called when a server's state has changed, from any goroutine, and
	// must not wait for anything. nil means that nobody wants to know.
	Changed func()
}

// A Forward is a dnsserver.Handler that asks upstream nameservers. All methods
// may be called concurrently.
type Forward struct {
	hedge      time.Duration
	tryTimeout time.Duration
	silence    time.Duration
	deadline   time.Duration
	dialer     *exchange.Dialer
	log        *slog.Logger
	changed    func()
	ignore     func(*dns.Msg) error
	answered   func(Reply)
	isOwn      func(netip.Addr) bool
	suspect    func()
	spent      func(netip.Addr, int)
	seed       maphash.Seed // random: chooses the lane
	threads    blockwait.Threads

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
	tlsAddr       func(nameserver.Server) (netip.AddrPort, bool) // constant

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

// New returns a Forward, which holds no sockets until it is asked. Close ends it.
func New(c Config) *Forward {
	f := &Forward{
		hedge:      orDefault(c.Hedge, defaultHedge),
		tryTimeout: orDefault(c.TryTimeout, defaultTryTimeout),
		silence:    orDefault(c.Silence, defaultSilence),
		deadline:   orDefault(c.Deadline, defaultDeadline),
		log:        c.Log,
		changed:    c.Changed,
		ignore:     c.Ignore,
		answered:   c.Answered,
		isOwn:      c.IsOwn,
		suspect:    c.Suspect,
		spent:      c.Spent,
		threads:    blockwait.NewThreads(c.Lanes),
		seed:       maphash.MakeSeed(),
		most:       max(1, c.Lanes),
		began:      time.Now(),

		lastResorts: make(chan struct{}, mostLastResorts),
	}
	if c.Lanes == 0 {
		f.answered = nil
	}
	if f.log == nil {
		f.log = slog.New(slog.DiscardHandler)
	}
	f.dialer = exchange.NewDialer(exchange.DialerConfig{Timeout: f.deadline, RootCAs: c.RootCAs, Work: &f.work, Recovered: f.recovered, Log: f.log})
	if f.changed == nil {
		f.changed = func() {}
	}
	if f.ignore == nil {
		f.ignore = func(*dns.Msg) error { return nil }
	}
	if f.opportunistic, f.tlsAddr = c.Opportunistic, c.TLSAddr; f.tlsAddr == nil {
		f.tlsAddr = tlsAddress
	}
	if f.isOwn == nil {
		f.isOwn = func(netip.Addr) bool { return false }
	}
	if f.suspect == nil {
		f.suspect = func() {}
	}
	if f.spent == nil {
		f.spent = func(netip.Addr, int) {}
	}
	f.SetUDP(c.UDP)
	f.SetMaxInFlight(c.MaxInFlight)
	f.table.Store(&table{})
	f.SetRoutes(c.Routes)
	return f
}

func orDefault(d, otherwise time.Duration) time.Duration {
	if d <= 0 {
		return otherwise
	}
	return d
}

// ServeDNS asks the servers of the query's route and returns the response of
// one of them, with the client's question, and of its OPT record the Extended
// DNS Errors alone. It sets q.AnsweredBy. The AD bit is the upstream's for
// everyone; dnsserver knows who asked for it (RFC 6840 section 5.8).
//
// When every server refused or failed with a response, the last such response
// is returned. When none responded, the error is a *dnsserver.ExtendedError of
// RFC 8914 code 22 or 23 that names the servers, and matches ErrNoResponse;
// ErrNoServers and ErrShed are the other ways to fail. Queries with other than one
// question are an error: dnsserver answers them itself.
func (f *Forward) ServeDNS(ctx context.Context, q *dnsserver.Query) (*dns.Msg, error) {
	if len(q.Msg.Question) != 1 {
		return nil, errNotOneQuestion
	}
	switch tried := q.Tried; {
	case tried == nil:
	case tried.Msg != nil:
		q.AnsweredBy = tried.Server
		return ofClient(q, tried.Msg.Copy()), nil
	case errors.Is(tried.Err, errComeback):
		return comeback(q), nil
	case tried.Err != nil:
		return nil, f.failed(tried.Err)
	}
	asked := questionOf(q)
	t := f.table.Load()
	r := t.match(q.Domain())
	if r != nil && r.Local {
		return new(dns.Msg).SetRcode(q.Msg, dns.RcodeNameError), nil
	}
	if r == nil || len(r.servers) == 0 {
		return nil, noServers(asked, r)
	}
	m, from, err := f.wait(ctx, asked, departure{table: t, route: r, now: time.Now()}, q)
	if errors.Is(err, errComeback) {
		return comeback(q), nil
	}
	if err != nil {
		return nil, err
	}
	q.AnsweredBy = from.Server
	return ofClient(q, m), nil
}

// wait waits for the response to a question.
func (f *Forward) wait(ctx context.Context, asked exchange.Question, d departure, q *dnsserver.Query) (*dns.Msg, *server, error) {
	var err error
	if d.key, err = asked.AppendKey(nil); err != nil {
		return nil, nil, fmt.Errorf("asking for %s: %w", asked, err)
	}
	n, err := f.laneOf(d.key)
	switch {
	case errors.Is(err, exchange.ErrClosed):
		return nil, nil, err
	case err != nil:
		return nil, nil, f.failed(extended(dns.ExtendedErrorCodeOther, "no socket to ask from: "+exchange.Reason(err), asked, ErrShed))
	}
	g := &guest{client: q.Client.Addr(), done: make(chan struct{})}
	switch err := n.board(d, seat{guest: g, from: d.route.asker(q)}); {
	case errors.Is(err, errFull):
		return nil, nil, f.failed(tooMany(asked, int(min(f.flights.share(d.route), f.flights.n.Load()))))
	case err != nil:
		return nil, nil, err
	}
	select {
	case <-g.done:
	case <-ctx.Done():
		n.leave(g)
		return nil, nil, gaveUp(asked, d.route, ctx.Err())
	}
	if g.err != nil {
		return nil, nil, f.failed(g.err)
	}
	return g.msg, g.from, nil
}

// Ask asks for the answer to a query, and calls Config.Answered
// with it, from another goroutine; or has the Handler answer with what came of it. It returns false where it does not, and
// nothing was done. tag is for Reply. hasStale says that the Handler may have a stale answer, if there is no other soon.
func (f *Forward) Ask(l *dnsserver.Later, tag uint64, hasStale bool) bool {
	if f.answered == nil || f.all.Load() {
		return false
	}
	var room [exchange.MaxKey]byte
	k, ok := exchange.AppendKey(room[:0], l.Query().Msg)
	if !ok {
		return false
	}
	t := f.table.Load()
	r := t.matchWire(k)
	if r == nil || r.Local || len(r.servers) == 0 || hasStale && r.dark.is() {
		return false
	}
	n, err := f.laneOf(k)
	if err != nil {
		return false
	}
	switch err := n.board(departure{k, t, r, tag, time.Now()}, seat{later: l, hasStale: hasStale, from: r.at(l.Client())}); {
	case errors.Is(err, errComeback):
		l.Handle(&dnsserver.Tried{Server: r.servers[0].Server, Err: errComeback})
	case err != nil:
		return false
	}
	return true
}

// questionOf takes the question from a query that has exactly one.
func questionOf(q *dnsserver.Query) exchange.Question {
	first := q.Msg.Question[0]
	name := q.Name.String()
	if q.Name.IsZero() {
		name = strings.ToLower(dns.Fqdn(first.Name))
	}
	opt := q.Msg.IsEdns0()
	return exchange.Question{
		Name:  name,
		Type:  first.Qtype,
		Class: first.Qclass,
		DO:    opt != nil && opt.Do(),
		CD:    q.Msg.CheckingDisabled,
		RD:    q.Msg.RecursionDesired,
	}
}

// laneOf is the lane of a question: the same one for the same question. A client cannot choose questions that share one.
func (f *Forward) laneOf(k exchange.Key) (*lane, error) {
	lanes := f.lanes.Load()
	if lanes == nil {
		var err error
		if lanes, err = f.open(); err != nil {
			return nil, err
		}
	}
	return (*lanes)[maphash.Bytes(f.seed, k)%uint64(len(*lanes))], nil
}

// open makes the lanes, unless it has been done.
func (f *Forward) open() (*[]*lane, error) {
	f.opening.Lock()
	defer f.opening.Unlock()
	if lanes := f.lanes.Load(); lanes != nil {
		return lanes, nil
	}
	if f.closed.Load() {
		return nil, exchange.ErrClosed
	}
	var lanes []*lane
	for range f.most {
		n, err := newLane(f, len(lanes))
		if err != nil && len(lanes) == 0 {
			return nil, err
		}
		if err == nil {
			lanes = append(lanes, n)
		}
	}
	f.lanes.Store(&lanes)
	return &lanes, nil
}

// tellLanes has the watchers of all lanes told.
func (f *Forward) tellLanes(m mail) {
	if lanes := f.lanes.Load(); lanes != nil {
		for _, n := range *lanes {
			n.post(m)
		}
	}
}

// ofClient makes of a response, which is the caller's, that to q.
func ofClient(q *dnsserver.Query, m *dns.Msg) *dns.Msg {
	m.Id = q.Msg.Id
	m.Question = []dns.Question{q.Msg.Question[0]}
	m.RecursionDesired = q.Msg.RecursionDesired
	m.CheckingDisabled = q.Msg.CheckingDisabled
	return m
}

// failed counts a query whose question has failed.
func (f *Forward) failed(err error) error {
	if errors.Is(err, ErrShed) {
		f.counts.shed.Add(1)
	} else {
		f.counts.unanswered.Add(1)
	}
	return err
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

// Renew has each question that comes from now on asked by itself, although an equal one is in flight: what that brings may be older than
// what the caller has just been told to forget. Who waits for it already gets it.
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
