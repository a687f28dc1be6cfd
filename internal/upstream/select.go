package upstream

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
)

// An Origin is a source that names the node's nameservers.
type Origin string

// The origins, most trusted first.
const (
	None               Origin = ""
	NetworkManager     Origin = "NetworkManager" // DnsManager over D-Bus
	NetworkManagerFile Origin = "/run/NetworkManager/resolv.conf"
	Event              Origin = "event" // the dispatcher's environment
	ResolvConf         Origin = "/etc/resolv.conf"
	Resolved           Origin = "systemd-resolved"
	LastGood           Origin = "last-good"
)

// Source maps an origin to its place in the table of all sources of upstreams.
func (o Origin) Source() nameserver.Source {
	switch o {
	case NetworkManager, NetworkManagerFile, Event:
		return nameserver.NetworkManager
	case ResolvConf, Resolved:
		return nameserver.ResolvConf
	}
	return nameserver.LastGood
}

// With returns the origin with its detail, for display.
func (o Origin) With(detail string) string { return strings.TrimSpace(string(o) + " " + detail) }

// Claim returns the candidate's claim to the names without a route.
func (c Candidate) Claim() nameserver.Claim {
	return nameserver.Claim{
		Source: c.Origin.Source(), Detail: c.Origin.With(c.Detail),
		Domain: dnsname.Root(), Servers: c.Set.Servers, GivesWay: true,
	}
}

// A Candidate is the set that one origin names.
type Candidate struct {
	Origin Origin
	// Detail is for display: a file, an interface, a connection, or "".
	Detail string
	Set    Set
	// Invalid are the strings that are not a valid nameserver.
	Invalid []string
}

// Refused is a nameserver that was offered but is not used.
type Refused struct {
	// Server is zero if the offer was not a valid nameserver. Text then is the start of it, with
	// any bytes: quote it. Otherwise Text is Server.String().
	Server nameserver.Server
	Text   string
	Origin Origin
	Detail string // the route's source, else the candidate's
	Reason string
}

// From returns the source of the offer, for display: "NetworkManager eth0 (System eth0)".
func (r Refused) From() string { return r.Origin.With(r.Detail) }

// A Selection is the outcome of Select.
type Selection struct {
	Set    Set
	Origin Origin
	Detail string
	// Refused are the refused servers of the winner and of the candidates before it.
	Refused []Refused
	// Lost are the candidates after the winner whose usable default servers differ, without their
	// routes and invalid strings.
	Lost []Candidate
}

const maxRefused = 64

// LostClaims returns the claims of Lost.
func (s Selection) LostClaims() []nameserver.Claim {
	var claims []nameserver.Claim
	for _, candidate := range s.Lost {
		claims = append(claims, candidate.Claim())
	}
	return claims
}

// Select chooses the nameservers to forward to: those of the first candidate that has a usable
// default server. Refused lists the unusable ones and the invalid strings. refuse returns why a
// server of this origin must not be used (for example, because it is this node), or "". nil refuses
// nothing. Unspecified, multicast and broadcast addresses and port 0 are always refused.
//
// A candidate with routes but no default server does not win, but its routes may be used with the
// winner's servers. The routes are those of the first candidate, up to the winner, that has any.
// They are never mixed, so that a removed route does not come back from an older candidate.
//
// If no candidate wins, the Set is empty, including routes, and Origin is None. The caller must
// then keep its present list.
func Select(candidates []Candidate, refuse func(origin Origin, server nameserver.Server) string) Selection {
	s := selector{refuse: refuse}
	var routes []Route
	for i, candidate := range candidates {
		set := s.usable(candidate)
		if len(routes) == 0 {
			routes = set.Routes
		}
		if len(set.Servers) == 0 {
			continue
		}
		return Selection{
			Set:     Set{Servers: set.Servers, Routes: routes},
			Origin:  candidate.Origin,
			Detail:  candidate.Detail,
			Refused: s.refused,
			Lost:    s.lost(candidates[i+1:], set.Servers),
		}
	}
	return Selection{Refused: s.refused}
}

// lost returns the candidates whose servers differ from the winner's.
func (s *selector) lost(candidates []Candidate, won []nameserver.Server) []Candidate {
	var lost []Candidate
	for _, candidate := range candidates {
		aside := selector{refuse: s.refuse}
		set := Set{Servers: aside.usable(candidate).Servers}
		if len(set.Servers) > 0 && !set.SameMembers(Set{Servers: won}) {
			lost = append(lost, Candidate{Origin: candidate.Origin, Detail: candidate.Detail, Set: set})
		}
	}
	return lost
}

type selector struct {
	refuse  func(origin Origin, server nameserver.Server) string
	refused []Refused
}

// usable returns the usable part of the candidate's set, normalized.
func (s *selector) usable(c Candidate) Set {
	for _, text := range c.Invalid {
		s.add(Refused{Text: cut(text), Origin: c.Origin, Detail: c.Detail, Reason: "not a nameserver's address"})
	}
	g := gatherer{hasLimits: true}
	for route, server := range c.Set.members() {
		reason := s.reason(c.Origin, server)
		if reason == "" {
			reason = g.add(route, server)
		}
		if reason != "" {
			detail := cmp.Or(strings.TrimPrefix(route.Source, string(c.Origin)+" "), c.Detail)
			s.add(Refused{Server: server, Text: cut(server.String()), Origin: c.Origin, Detail: detail, Reason: reason})
		}
	}
	return g.set()
}

func (s *selector) reason(origin Origin, server nameserver.Server) string {
	if reason := impossible(server); reason != "" || s.refuse == nil {
		return reason
	}
	return s.refuse(origin, server)
}

// impossible returns why no query can be sent to server, or "".
func impossible(server nameserver.Server) string {
	ip := server.Addr.Addr().Unmap().WithZone("")
	switch {
	case !ip.IsValid():
		return "no address"
	case ip.IsUnspecified():
		return "unspecified address"
	case ip.IsMulticast():
		return "multicast address"
	case ip == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return "broadcast address"
	case server.Addr.Port() == 0:
		return "port 0"
	case !readable(server):
		return "malformed"
	}
	return ""
}

func (s *selector) add(r Refused) {
	if len(s.refused) < maxRefused && !slices.Contains(s.refused, r) {
		s.refused = append(s.refused, r)
	}
}
