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
	"github.com/node-dns/node-dns/internal/sys/stats"
)

// handler is one entry of the list. Its functions are called concurrently.
type handler struct {
	name string
	// handle answers q under s, or returns the result of next.
	handle func(ctx context.Context, s *state, q *dnsserver.Query, next rest) (*dns.Msg, error)
	// fast decides what handle would do with a query that was not parsed. nil means that handle
	// only modifies the answer of the rest of the list, and that the fast path takes care of it
	// there.
	fast func(r *Resolver, s *state, w *walk) verdict
	// continues reports whether handle continues after an NXDOMAIN for that client. nil means that
	// it does not.
	continues func(r *Resolver, s *state, client netip.Addr) bool
}

// Positions in order at which the list is entered other than at the top.
const (
	selfAt   = 1  // for names that CNAME records or search lists lead to
	anyAt    = 11 // for cluster names that the cluster's own nameservers answer
	screenAt = 13 // for names that are not in the cache
)

// rest is the list from one handler on, under one state. It is a dnsserver.Handler.
type rest struct {
	r       *Resolver
	s       *state
	from    int
	foreign bool // the zone handler found that it is not a cluster name
}

var _ dnsserver.Handler = rest{}

// ServeDNS answers q with the rest of the list.
func (n rest) ServeDNS(ctx context.Context, q *dnsserver.Query) (*dns.Msg, error) {
	here := n.from
	n.from++
	if t := q.Trace(); t != nil {
		return n.traced(ctx, q, here, t)
	}
	return n.r.order[here].handle(ctx, n.s, q, n)
}

// traced calls the current handler with tracing. It is separate from ServeDNS, where its closure
// would be allocated for every query.
func (n rest) traced(ctx context.Context, q *dnsserver.Query, here int, t *dnsserver.Trace) (*dns.Msg, error) {
	h := n.r.order[here]
	return t.Enter(h.name, q, func() (*dns.Msg, error) { return h.handle(ctx, n.s, q, n) })
}

// verdict is a handler's decision about a query that was not parsed.
type verdict int

const (
	pass     verdict = iota // the handler does not affect the answer
	stop                    // the handler may affect the answer, so ServeDNS must answer
	answered                // walk.response is the answer, or the upstreams must be queried
)

func stopIf(mayHaveSay bool) verdict {
	if mayHaveSay {
		return stop
	}
	return pass
}

// walk is the state of one unparsed query on its way through the list.
type walk struct {
	q        *dnsserver.WireQuery
	question []byte // result of AppendKey
	name     []byte // the name as text of a dnsname.Name; nil if it is not a valid one
	isOfZone bool   // the name is, or may be, in one of the cluster's zones
	response []byte // the answer is appended to it unless isMiss is set

	isMiss bool                    // cache miss: query the upstreams
	later  *dnsserver.PendingQuery // receives their answer; nil to not query them

	roomForQuestion [dnswire.MaxQuestion]byte
	roomForName     [dnswire.MaxName]byte
}

// Config configures a Resolver together with its Policy. Log, Panics, Numbers and NoSearch are
// required.
type Config struct {
	Version string // for version.bind
	Log     *slog.Logger
	Panics  *journal.Panics
	// Forward configures the forwarder. The Resolver sets the fields that depend on the Policy, and
	// Answered, Ignore and IsOwn.
	Forward forward.Config
	// Numbers returns the TXT strings of one of dnsmasq's CHAOS names, in lower case. ok is false
	// if it has no such name. It is called concurrently.
	Numbers func(name string) (texts []string, ok bool)
	// NoSearch returns the reason why pods' search lists are not walked, or "" if they are. It is
	// called concurrently.
	NoSearch func(*policy.Policy) string
	// Rotate is passed to zone.Config; nil means random.
	Rotate func(n int) int
}

// Resolver is a dnsserver.Handler that answers under one Policy at a time. All methods may be
// called concurrently, except Apply and Close.
type Resolver struct {
	config  Config
	order   []handler // the list; reading a package variable would be an initialization cycle
	forward *forward.Forward
	state   atomic.Pointer[state] // never nil
	names   clusterNames

	autopath  autopath
	absent    stats.Counter // NXDOMAIN answers for cluster names
	walks     sync.Pool
	refreshes sync.WaitGroup // of stale answers
}

// state holds everything for answering queries under one Policy. It is immutable: a query that
// began under one state ends under it.
type state struct {
	*policy.Policy
	mark  uint32 // unique and not 0; see fastCache
	cache *cache.Cache
	zone  *zone.Resolver // answers cluster names; nil if the API is not watched
	zones []dnsname.Name // the cluster's zones
}

// isOfZone reports whether a name, as lower-case text, is in one of the cluster's zones. It does
// not allocate.
func (s *state) isOfZone(text []byte) bool {
	return slices.ContainsFunc(s.zones, func(zone dnsname.Name) bool { return zone.Covers(text) })
}

// zoneOf returns the longest of the cluster's zones that contains name, or the zero Name.
func (s *state) zoneOf(name dnsname.Name) (found dnsname.Name) {
	for _, zone := range s.zones {
		if name.Within(zone) && zone.Labels() >= found.Labels() {
			found = zone
		}
	}
	return found
}

// clientTTL returns the maximum TTL for clients in seconds; 0 means no limit.
func (s *state) clientTTL() uint32 { return uint32(max(s.Settings.ClientTTL, 0)) }
