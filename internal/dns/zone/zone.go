// Package zone answers for the cluster domain and its reverse zones.
//
// It stands before the cache and the upstream nameservers, because a cluster name must never leave the node: whoever
// knows the cluster answers for it, and while nobody does the answer is SERVFAIL and not the NXDOMAIN that an upstream
// would give (law 7). Who knows is a Handler: the configured cluster DNS server, behind the cache; a resolver built
// from the Kubernetes API takes the same place.
package zone

import (
	"context"
	"sync/atomic"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/dnsserver"
)

// Authority is who answers for which zones. It is immutable once it is handed to a Zone.
type Authority struct {
	// Apexes are the zones: the cluster domain first, then its reverse zones. None: no name is the cluster's.
	Apexes []dnsname.Name
	// Cluster answers for them. Nil: nobody knows the cluster yet, and its names are SERVFAIL.
	Cluster dnsserver.Handler
}

// apexOf returns the zone that name is in; the zero Name when it is in none.
func (a *Authority) apexOf(name dnsname.Name) dnsname.Name {
	var found dnsname.Name
	for _, apex := range a.Apexes {
		if name.Within(apex) && apex.Labels() >= found.Labels() {
			found = apex
		}
	}
	return found
}

// Zone hands a query to the cluster's authority or on to the next Handler. It is safe for concurrent use.
type Zone struct {
	next      dnsserver.Handler
	authority atomic.Pointer[Authority]
}

var _ dnsserver.Handler = (*Zone)(nil)

// New returns a Zone that hands what is not the cluster's to next.
func New(authority Authority, next dnsserver.Handler) *Zone {
	z := &Zone{next: next}
	z.Set(authority)
	return z
}

// Set replaces the authority. Queries under way end with the one they began with.
func (z *Zone) Set(authority Authority) { z.authority.Store(&authority) }

// Covers reports whether a name is in one of the zones, by its text: that of a dnsname.Name. It does not allocate.
func (z *Zone) Covers(text []byte) bool {
	for _, apex := range z.authority.Load().Apexes {
		if apex.Covers(text) {
			return true
		}
	}
	return false
}

// ServeDNS implements dnsserver.Handler.
func (z *Zone) ServeDNS(ctx context.Context, q *dnsserver.Query) (*dns.Msg, error) {
	authority := z.authority.Load()
	apex := authority.apexOf(q.Domain())
	switch {
	case apex.IsZero():
		return z.next.ServeDNS(ctx, q)
	case authority.Cluster == nil:
		return nil, &dnsserver.ExtendedError{
			Code: dns.ExtendedErrorCodeNotReady,
			Text: "no cluster DNS server is known for " + apex.String(),
		}
	}
	return authority.Cluster.ServeDNS(ctx, q)
}
