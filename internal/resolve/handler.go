package resolve

import (
	"context"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/cache"
	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/dns/dnswire"
	"github.com/node-dns/node-dns/internal/dns/forward"
	"github.com/node-dns/node-dns/internal/dns/zone"
	"github.com/node-dns/node-dns/internal/policy"
	"github.com/node-dns/node-dns/internal/sys/journal"
	"github.com/node-dns/node-dns/internal/sys/percpu"
)

// handler is one row of the list. Its functions are called concurrently.
type handler struct {
	name string
	// handle answers q under s, or returns what next says.
	handle func(ctx context.Context, s *state, q *dnsserver.Query, next rest) (*dns.Msg, error)
	// fast says what handle would do with a query that was not parsed. Nil: handle has the rest of the list answer, and what it
	// changes is seen to there.
	fast func(r *Resolver, s *state, w *walk) verdict
	// goesOn reports whether handle would not leave it at an NXDOMAIN for that client. Nil: it would.
	goesOn func(r *Resolver, s *state, client netip.Addr) bool
}

// Where the list in order.go is entered past its top.
const (
	selfAt   = 1  // for names that CNAME records or search lists lead to
	anyAt    = 12 // for names of the cluster that its own nameservers answer
	screenAt = 14 // for what the cache does not have
)

// rest is the list from one handler on, under one state. It is a dnsserver.Handler.
type rest struct {
	r       *Resolver
	s       *state
	from    int
	foreign bool // the zone has said that the name is not the cluster's
}

var _ dnsserver.Handler = rest{}

// answer has the rest of the list answer q.
func (n rest) answer(ctx context.Context, q *dnsserver.Query) (*dns.Msg, error) {
	here := n.from
	n.from++
	if t := q.Trace(); t != nil {
		return n.traced(ctx, q, here, t)
	}
	return n.r.order[here].handle(ctx, n.s, q, n)
}

// traced has the handler here answer q. It is apart from answer, where what its function holds would be allocated for every query.
func (n rest) traced(ctx context.Context, q *dnsserver.Query, here int, t *dnsserver.Trace) (*dns.Msg, error) {
	h := n.r.order[here]
	return t.Enter(h.name, q, func() (*dns.Msg, error) { return h.handle(ctx, n.s, q, n) })
}

// ServeDNS implements dnsserver.Handler.
func (n rest) ServeDNS(ctx context.Context, q *dnsserver.Query) (*dns.Msg, error) {
	return n.answer(ctx, q)
}

// verdict is what a handler says to a query that was not parsed.
type verdict int

const (
	pass     verdict = iota // it has no say in the answer
	stop                    // it may have one: ServeDNS answers
	answered                // walk.response is the answer, or the upstreams are the ones to ask
)

func stopIf(mayHaveSay bool) verdict {
	if mayHaveSay {
		return stop
	}
	return pass
}

// walk is the way of one query, which was not parsed, through the list.
type walk struct {
	q        *dnsserver.WireQuery
	question []byte // its AppendKey
	name     []byte // its name, as the text of a dnsname.Name; nil if it has octets that no dnsname.Name has
	isOfZone bool   // the name is in one of the cluster's zones, or may be
	response []byte // the answer is appended to it, unless isMiss

	isMiss bool                    // nothing is remembered: upstreams are to be asked
	later  *dnsserver.PendingQuery // what they answer goes there; nil: they are not asked

	roomForQuestion [dnswire.MaxQuestion]byte
	roomForName     [dnswire.MaxName]byte
}

// Config is what a Resolver needs beside its Policy. Log, Panics, IsProbe, Numbers and NoSearch are required.
type Config struct {
	Version string // for version.bind
	Log     *slog.Logger
	Panics  *journal.Panics
	// Forward is how upstreams are asked. The Resolver sets what the Policy says, Answered, Ignore and IsOwn.
	Forward forward.Config
	// IsProbe reports whether a name is one of our own loop probes, and takes note. It is called concurrently.
	IsProbe func(dnsname.Name) bool
	// Numbers are the texts of a CHAOS name of dnsmasq's, in lower case; false if it has no such name. It is called concurrently.
	Numbers func(name string) (texts []string, ok bool)
	// NoSearch says why the search lists of pods are not walked; "" if they are. It is called concurrently.
	NoSearch func(*policy.Policy) string
	// Rotate is zone.Config's. Nil: random.
	Rotate func(n int) int
}

// Resolver is a dnsserver.Handler that answers under one Policy after the other. All methods may be called concurrently, except
// Apply and Close.
type Resolver struct {
	config  Config
	order   []handler // the list; a package variable that its own handlers read would be a cycle of initialization
	forward *forward.Forward
	state   atomic.Pointer[state] // never nil
	names   clusterNames

	autopath  autopath
	absent    percpu.Counter // cluster names that do not exist, as answered
	walks     sync.Pool
	refreshes sync.WaitGroup // of stale answers
}

// state is what queries are answered by under one Policy. It does not change: a query that began under it ends under it.
type state struct {
	*policy.Policy
	mark  uint32 // one for each state, not 0: see fastCache
	cache *cache.Cache
	zone  *zone.Resolver // answers the cluster's names; nil if the API is not watched
	zones []dnsname.Name // the cluster's
}

// isOfZone reports whether a name is in one of the cluster's zones, by its text in lower case. It does not allocate.
func (s *state) isOfZone(text []byte) bool {
	return slices.ContainsFunc(s.zones, func(zone dnsname.Name) bool { return zone.Covers(text) })
}

// zoneOf is the longest of the cluster's zones that a name is in; the zero Name if it is in none.
func (s *state) zoneOf(name dnsname.Name) (found dnsname.Name) {
	for _, zone := range s.zones {
		if name.Within(zone) && zone.Labels() >= found.Labels() {
			found = zone
		}
	}
	return found
}

// clientTTL is the highest TTL that clients see, in seconds; 0: any.
func (s *state) clientTTL() uint32 { return uint32(max(s.Settings.ClientTTL, 0)) }
