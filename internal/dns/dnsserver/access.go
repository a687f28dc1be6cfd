package dnsserver

import (
	"net/netip"

	"github.com/miekg/dns"
)

// Access says who may ask, and how often. It is not changed once a server has it.
type Access struct {
	// Clients may ask at every address that At does not have; nil: everyone may.
	Clients *Networks
	// At are the addresses where others may; nil: there are none.
	At map[netip.AddrPort]*Networks
	// Host are the addresses of this host, which nobody else can send from: no limit on responses that say no, nor Rate, is for
	// them.
	Host *Networks
	// Rate bounds the queries of one client in a second; 0: nothing does.
	Rate int

	limiter *Limiter // of Rate; nil: none
}

const (
	allowed  denial = iota // it is
	stranger               // the client may not ask here
	hasty                  // it asks more often than Access.Rate
	crowding               // it has more than its share of the places
	costly                 // it has had more than its share of what upstream nameservers send
)

// denies says whether a client may ask at an address, and why not.
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

// wouldDeny is denies for a query that does not count.
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

// Allows reports whether a client may ask at an address that is listened on, however often.
func (a *Access) Allows(local netip.AddrPort, client netip.Addr) bool {
	who := a.Clients
	if len(a.At) > 0 {
		if others, ok := a.At[local]; ok {
			who = others
		}
	}
	return who == nil || who.Contains(client)
}

// isHost reports whether a client is this host, which has no limits; nil: that is not known.
func (a *Access) isHost(client netip.Addr) bool { return a != nil && a.Host.Contains(client) }

// denial is why a query is not looked at.
type denial int

// explanation is the Extended DNS Error of a denial: RFC 8914 section 4.
func (d denial) explanation() (code uint16, text string) {
	switch d {
	case stranger:
		return dns.ExtendedErrorCodeProhibited, "this network may not ask here"
	case hasty:
		return dns.ExtendedErrorCodeOther, "too many queries a second"
	case crowding:
		return dns.ExtendedErrorCodeOther, "too many queries of yours wait for an answer"
	case costly:
		return dns.ExtendedErrorCodeOther, "the answers to your queries are too large for so many"
	}
	return dns.ExtendedErrorCodeOther, ""
}
