package resolve

import (
	"context"
	"net/netip"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnsserver"
)

// order says who answers first. To add a handler: write its functions in a file of its own, and give it a row here.
var order = [...]handler{
	{name: "search lists of pods", handle: walkSearchList, goesOn: leadsOn},
	{name: "self", handle: serveSelf},
	{name: "loop probes", handle: serveProbe, fast: stopAtProbe},
	{name: "localhost", handle: serveLocalhost, fast: stopAtLocalhost},
	{name: "domain-needed", handle: refusePlain, fast: stopAtPlain},
	{name: "special domains", handle: serveSpecial, fast: stopAtSpecial},
	{name: "local data", handle: serveLocalData, fast: stopAtLocalData},
	{name: "filter-A, filter-AAAA", handle: filterAddresses, fast: stopAtFilters},
	{name: "cluster", handle: serveCluster, fast: fastCluster},
	{name: "filterwin2k", handle: refuseWindows, fast: stopAtWindows},
	{name: "bogus-priv", handle: refusePrivate, fast: stopAtPrivate},
	{name: "max-ttl", handle: limitTTL},
	{name: "minimal ANY", handle: serveMinimalAny, fast: stopAtAny},
	{name: "cache", handle: serveCached, fast: fastCache},
	{name: "alias, bogus-nxdomain, stop-dns-rebind", handle: screen, fast: stopAtScreen},
	{name: "upstreams", handle: serveUpstream, fast: fastUpstream},
}

// Where the list is entered past its top.
const (
	selfAt   = 1  // for names that CNAME records or search lists lead to
	anyAt    = 12 // for names of the cluster that its own nameservers answer
	screenAt = 14 // for what the cache does not have
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

// rest is the list from one handler on, under one state. It is a dnsserver.Handler.
type rest struct {
	r       *Resolver
	s       *state
	from    int
	foreign bool // the zone has said that the name is not the cluster's
}

var _ dnsserver.Handler = rest{}

// ServeDNS implements dnsserver.Handler.
func (n rest) ServeDNS(ctx context.Context, q *dnsserver.Query) (*dns.Msg, error) {
	here := n.from
	n.from++
	return n.r.order[here].handle(ctx, n.s, q, n)
}
