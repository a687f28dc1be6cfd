package dnsserver

import (
	"net/netip"

	"github.com/miekg/dns"
)

// Access says which clients may send queries, and how often. It must not be modified after a server
// has it.
type Access struct {
	// Clients are allowed at every address that is not in At; nil allows every client.
	Clients *Networks
	// At lists the addresses with a client list of their own, in place of Clients; nil means there
	// are none.
	At map[netip.AddrPort]*Networks
	// Host lists the addresses of this host, which no other host can send from. They are exempt
	// from Rate and from the limit on error responses.
	Host *Networks
	// Rate is the maximum number of queries per second of one client; 0 means no limit.
	Rate int

	limiter *Limiter // enforces Rate; nil if Rate is 0
}

const (
	allowed  denial = iota // the query is not denied
	stranger               // the client may not send queries here
	hasty                  // the client exceeds Access.Rate
	crowding               // the client has more than its share of the MaxInFlight slots
	costly                 // the client has used more than its share of upstream traffic
)

// denies returns why a client's query at a local address is denied, or allowed. It counts the query
// against Rate.
func (a *Access) denies(local netip.AddrPort, client netip.Addr) denial {
	if a == nil {
		return allowed
	}
	switch {
	case !a.Allows(local, client):
		return stranger
	case a.limiter != nil && !a.Host.Contains(client) && !a.limiter.Allow(client):
		return hasty
	}
	return allowed
}

// wouldDeny is like denies but does not count the query.
func (a *Access) wouldDeny(local netip.AddrPort, client netip.Addr) denial {
	switch {
	case a == nil:
	case !a.Allows(local, client):
		return stranger
	case a.limiter != nil && !a.Host.Contains(client) && !a.limiter.allows(client):
		return hasty
	}
	return allowed
}

// Allows reports whether a client may send queries to a local address, regardless of Rate.
func (a *Access) Allows(local netip.AddrPort, client netip.Addr) bool {
	who := a.Clients
	if len(a.At) > 0 {
		if others, ok := a.At[local]; ok {
			who = others
		}
	}
	return who == nil || who.Contains(client)
}

// isHost reports whether client is this host, which has no limits. It returns false if a is nil.
func (a *Access) isHost(client netip.Addr) bool { return a != nil && a.Host.Contains(client) }

// denial is the reason why a query is denied.
type denial int

// explanation returns the Extended DNS Error for d (RFC 8914 section 4).
func (d denial) explanation() (code uint16, text string) {
	switch d {
	case stranger:
		return dns.ExtendedErrorCodeProhibited, "queries from this network are not allowed"
	case hasty:
		return dns.ExtendedErrorCodeOther, "too many queries per second"
	case crowding:
		return dns.ExtendedErrorCodeOther, "too many pending queries from this client"
	case costly:
		return dns.ExtendedErrorCodeOther, "too many large answers for this client"
	}
	return dns.ExtendedErrorCodeOther, ""
}
