package daemon

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/admin/dbusapi"
	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/exchange"
	"github.com/node-dns/node-dns/internal/dns/forward"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
	"github.com/node-dns/node-dns/internal/dnsmasqconf"
	"github.com/node-dns/node-dns/internal/hostdns"
	"github.com/node-dns/node-dns/internal/precedence"
	"github.com/node-dns/node-dns/internal/upstream"
)

// Why a server is not asked.
const (
	thisNode = "this node: would loop"
	comeBack = control.ComesBack
)

// claims are all that is said of where names are asked, by whomever.
func (s *serving) claims(in inputs) []precedence.Claim {
	claims := slices.Concat(s.busClaims(in.bus), s.clusterClaims(), s.fileClaims(in))
	claims = append(claims, rootClaim(precedence.CommandLine, "", in.flags.Upstreams, false))
	claims = append(claims, in.config.Claims(in.recursive)...)
	claims = append(claims, s.ownDNSClaims()...)
	claims = append(claims, s.capturedClaims(in)...)
	// Who names no server for all names says nothing of them.
	claims = slices.DeleteFunc(claims, func(c precedence.Claim) bool {
		return c.Domain.IsRoot() && c.Kind == precedence.Ask && len(c.Servers) == 0
	})
	for i := range claims {
		s.refuse(&claims[i])
	}
	return claims
}

func rootClaim(source precedence.Source, detail string, servers []nameserver.Server, givesWay bool) precedence.Claim {
	return precedence.Claim{Source: source, Detail: detail, Domain: dnsname.Root(), Servers: servers, GivesWay: givesWay}
}

// busClaims are what was set over D-Bus. Only root can set it, and whoever names the cluster's domain means it. A shorter
// domain, or that of all names, takes nothing from the cluster's.
func (s *serving) busClaims(set dbusapi.State) []precedence.Claim {
	var claims []precedence.Claim
	for _, route := range dnsmasqconf.Routes(set.Rules) {
		c := ruleClaim(precedence.DBus, set.RulesBy.String(), route)
		c.GivesWay = route.Domain.IsRoot()
		switch {
		case route.Kind == dnsmasqconf.Local && s.isOfCluster(route.Domain) && s.api != (api{}):
			c.Barred = "the built-in cluster resolver answers it: that is what is known here"
			s.note("/%s/ (%s) is answered by the built-in cluster resolver: that is what is known here", route.Domain.Relative(), c)
		case route.Kind == dnsmasqconf.Standard && route.Domain.IsRoot():
			continue // which says nothing
		}
		claims = append(claims, c)
	}
	return claims
}

func ruleClaim(source precedence.Source, detail string, route dnsmasqconf.Route) precedence.Claim {
	kinds := map[dnsmasqconf.Kind]precedence.Kind{
		dnsmasqconf.Ask: precedence.Ask, dnsmasqconf.Local: precedence.Local, dnsmasqconf.Standard: precedence.Standard,
	}
	return precedence.Claim{Source: source, Detail: detail, Domain: route.Domain, Kind: kinds[route.Kind], Servers: route.Servers}
}

func (s *serving) clusterClaims() []precedence.Claim {
	if len(s.clusterDNS) == 0 {
		return nil
	}
	var claims []precedence.Claim
	for _, apex := range s.apexes {
		claims = append(claims, precedence.Claim{Source: precedence.Cluster, Detail: s.clusterSource, Domain: apex, Servers: s.clusterDNS})
	}
	return claims
}

// capturedClaims are what the host says of itself, and what said something else there.
func (s *serving) capturedClaims(in inputs) []precedence.Claim {
	var claims []precedence.Claim
	for _, route := range in.captured.Routes {
		c := precedence.Claim{Source: in.from, Detail: cmp.Or(route.Source, in.origin), Domain: route.Domain, Servers: route.Servers}
		if s.isOfCluster(route.Domain) {
			// DHCP and a VPN have no say in the cluster's names.
			c.Barred = "it lies in the cluster's zone"
			s.problems = append(s.problems, fmt.Sprintf("the route for %s (%s) lies in the cluster's zone: it is left out", route.Domain, c))
		}
		claims = append(claims, c)
	}
	claims = append(claims, rootClaim(in.from, in.origin, in.captured.Servers, true))
	for _, c := range in.outdone {
		if c.Source > in.from {
			claims = append(claims, c)
		}
	}
	return claims
}

// refuse leaves out the servers of a claim that must not be asked: the addresses that we listen on, whoever named them (law
// 3), and those that send our queries back. dnsmasq passes over its own addresses ("ignoring nameserver - local interface"),
// and so does what speaks its language: OpenShift's SDN names 127.0.0.1 for cluster.local and in-addr.arpa, where its own
// nameserver was. Here we are that, and answer the cluster's names anyway; for others the domain has no servers of its own.
func (s *serving) refuse(c *precedence.Claim) {
	if c.Kind != precedence.Ask {
		return
	}
	var usable []nameserver.Server
	asDnsmasq := c.Source == precedence.DBus || c.Source == precedence.Dnsmasq
	for _, server := range c.Servers {
		_, loops := s.looping[server]
		var bind error
		if c.Source == precedence.Dnsmasq { // of D-Bus the caller was told
			bind = exchange.MayBind(server)
		}
		switch {
		case !server.TLS && slices.Contains(s.listen, server.Addr):
			c.Refused = append(c.Refused, precedence.Refused{Server: server, Why: thisNode})
		case bind != nil:
			c.Refused = append(c.Refused, precedence.Refused{Server: server, Why: bind.Error()})
		case loops:
			c.Refused = append(c.Refused, precedence.Refused{Server: server, Why: comeBack})
			asDnsmasq = false
		case !slices.Contains(usable, server):
			usable = append(usable, server)
		}
	}
	c.Servers = usable
	c.GivesWay = c.GivesWay || asDnsmasq
}

// settle takes over who has won, and says what is odd about that.
func (s *serving) settle(claims []precedence.Claim) {
	s.won, s.lost = precedence.Settle(claims)
	for _, c := range s.won {
		s.candidates = append(s.candidates, c.Servers...)
		s.report(c.Claim)
		if c.Domain.IsRoot() && !c.Plain && c.Kind == precedence.Ask && len(c.Servers) == 0 {
			continue // an admin's servers are all refused: no others are asked
		}
		s.routes = append(s.routes, forward.Route{
			Domain: c.Domain, Plain: c.Plain, Local: c.Kind == precedence.Local, Servers: c.Servers, Source: c.String(),
		})
		if s.isOfCluster(c.Domain) && (c.Source == precedence.DBus || c.Source == precedence.Dnsmasq) {
			s.overrides = append(s.overrides, c.Domain)
			if c.Source == precedence.DBus {
				s.note("the cluster's names in %s are not answered as the cluster's: %s", c.Domain, c)
			}
		}
	}
	for _, c := range s.lost {
		switch {
		case c.GaveWay:
			s.report(c.Claim)
		case c.IsConflict() && c.By.Source == precedence.Dnsmasq: // of others the hook says it
			s.notes = append(s.notes, c.Sentence())
		}
	}
}

// report says which servers of a claim that counts are not asked.
func (s *serving) report(c precedence.Claim) {
	for _, r := range c.Refused {
		switch {
		case r.Why == comeBack:
			s.candidates = append(s.candidates, r.Server)
			s.problems = append(s.problems, fmt.Sprintf("%s (%s) sends our queries back to us: it is left out", r.Server, c))
		case r.Why != thisNode:
			s.problems = append(s.problems, fmt.Sprintf("%s (%s): %s: it is left out", r.Server, c, r.Why))
		case c.Source == precedence.DBus, c.Source == precedence.Dnsmasq:
			s.note("%s for %s (%s) is this node: it is left out, and its names are answered as without it", r.Server, c.Domain, c)
		default:
			s.problems = append(s.problems, fmt.Sprintf("%s (%s) is this node: it would loop, and is left out", r.Server, c))
		}
	}
}

// sourceOfCapture is who says what was captured: not NetworkManager any more, where the host says it with less now.
func sourceOfCapture(captured hostdns.Capture, now upstream.Selection) precedence.Source {
	return max(captured.Origin.Source(), now.Origin.Source())
}

// outdone are what the host says of itself beside what it goes by.
func outdone(now upstream.Selection) []precedence.Claim {
	var claims []precedence.Claim
	for _, candidate := range now.Lost {
		claims = append(claims, candidate.Claim())
	}
	return claims
}
