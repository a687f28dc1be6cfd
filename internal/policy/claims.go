package policy

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/exchange"
	"github.com/node-dns/node-dns/internal/dns/forward"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
	"github.com/node-dns/node-dns/internal/dnsmasqconf"
)

// thisNode is the reason why an address where node-dns listens is not used.
const thisNode = "this node: would loop"

// claims returns the routes that all sources want.
func (p *Policy) claims(in Inputs) []nameserver.Claim {
	claims := slices.Concat(p.busClaims(in), p.clusterClaims(), p.fileClaims(in))
	claims = append(claims, rootClaim(nameserver.CommandLine, "", in.Upstreams, false))
	claims = append(claims, in.Config.Claims(in.Recursive)...)
	claims = append(claims, p.ownDNSClaims(in)...)
	claims = append(claims, p.capturedClaims(in)...)
	// A source without a server for all names makes no claim to them.
	claims = slices.DeleteFunc(claims, func(c nameserver.Claim) bool {
		return c.Domain.IsRoot() && c.Kind == nameserver.Ask && len(c.Servers) == 0
	})
	for i := range claims {
		p.bypassService(in, &claims[i])
		p.refuse(&claims[i])
	}
	return claims
}

func rootClaim(source nameserver.Source, detail string, servers []nameserver.Server, givesWay bool) nameserver.Claim {
	return nameserver.Claim{Source: source, Detail: detail, Domain: dnsname.Root(), Servers: servers, GivesWay: givesWay}
}

// busClaims returns the routes set over D-Bus. Only root can set them, so a route for the cluster's
// domain is intended. A route for a shorter domain, or for all names, does not affect the cluster's
// domain.
func (p *Policy) busClaims(in Inputs) []nameserver.Claim {
	var claims []nameserver.Claim
	for _, route := range dnsmasqconf.Routes(in.Bus.Rules) {
		c := ruleClaim(nameserver.DBus, in.Bus.RulesBy, route)
		c.GivesWay = route.Domain.IsRoot()
		switch {
		case route.Kind == dnsmasqconf.Local && p.IsOfCluster(route.Domain) && p.API != (API{}):
			c.Barred = "the built-in cluster resolver answers it locally"
			p.note("/%s/ (%s) is answered locally by the built-in cluster resolver", route.Domain.Relative(), c)
		case route.Kind == dnsmasqconf.Standard && route.Domain.IsRoot():
			continue // no effect
		}
		claims = append(claims, c)
	}
	return claims
}

func ruleClaim(source nameserver.Source, detail string, route dnsmasqconf.Route) nameserver.Claim {
	kinds := map[dnsmasqconf.Kind]nameserver.Kind{
		dnsmasqconf.Ask: nameserver.Ask, dnsmasqconf.Local: nameserver.Local, dnsmasqconf.Standard: nameserver.Standard,
	}
	return nameserver.Claim{Source: source, Detail: detail, Domain: route.Domain, Kind: kinds[route.Kind], Servers: route.Servers}
}

func (p *Policy) clusterClaims() []nameserver.Claim {
	if len(p.ClusterDNS) == 0 {
		return nil
	}
	var claims []nameserver.Claim
	for _, apex := range p.Apexes {
		claims = append(claims, nameserver.Claim{Source: nameserver.Cluster, Detail: p.ClusterSource, Domain: apex, Servers: p.ClusterDNS})
	}
	return claims
}

// capturedClaims returns the host's routes: those of the winning source, and those of its other
// sources.
func (p *Policy) capturedClaims(in Inputs) []nameserver.Claim {
	var claims []nameserver.Claim
	for _, route := range in.Captured.Routes {
		c := nameserver.Claim{Source: in.From, Detail: cmp.Or(route.Source, in.Origin), Domain: route.Domain, Servers: route.Servers}
		if p.IsOfCluster(route.Domain) {
			// DHCP and VPNs must not redirect the cluster's names.
			c.Barred = "it is in the cluster's zone"
			p.Problems = append(p.Problems, fmt.Sprintf("ignoring the route for %s (%s): it is in the cluster's zone", route.Domain, c))
		}
		claims = append(claims, c)
	}
	claims = append(claims, rootClaim(in.From, in.Origin, in.Captured.Servers, true))
	for _, c := range in.Outdone {
		if c.Source > in.From {
			claims = append(claims, c)
		}
	}
	return claims
}

// refuse removes servers that must not be queried from a claim: addresses where node-dns listens,
// regardless of the source, and servers that send our queries back. dnsmasq ignores its own
// addresses ("ignoring nameserver - local interface"), and software that configures dnsmasq relies
// on that: OpenShift's SDN names 127.0.0.1 for cluster.local and in-addr.arpa, where its own
// nameserver was. Here that nameserver is node-dns, which answers the cluster's names anyway. For
// other names, the domain then has no servers of its own.
func (p *Policy) refuse(c *nameserver.Claim) {
	if c.Kind != nameserver.Ask {
		return
	}
	var usable []nameserver.Server
	asDnsmasq := c.Source == nameserver.DBus || c.Source == nameserver.Dnsmasq
	for _, server := range c.Servers {
		_, loops := p.looping[server]
		var bind error
		if c.Source == nameserver.Dnsmasq { // a D-Bus caller gets the error in the reply
			bind = exchange.MayBind(server)
		}
		switch {
		case p.comesHere(server):
			c.Refused = append(c.Refused, nameserver.Refused{Server: server, Why: thisNode})
		case bind != nil:
			c.Refused = append(c.Refused, nameserver.Refused{Server: server, Why: bind.Error()})
		case loops:
			c.Refused = append(c.Refused, nameserver.Refused{Server: server, Why: nameserver.ComesBack})
			asDnsmasq = false
		case !slices.Contains(usable, server):
			usable = append(usable, server)
		}
	}
	c.Servers = usable
	c.GivesWay = c.GivesWay || asDnsmasq
}

// settle adopts the winning claims and notes conflicts with the others.
func (p *Policy) settle(claims []nameserver.Claim) {
	p.Won, p.Lost = nameserver.Settle(claims)
	for _, c := range p.Won {
		p.Candidates = append(p.Candidates, c.Servers...)
		p.report(c.Claim)
		if c.Domain.IsRoot() && !c.Plain && c.Kind == nameserver.Ask && len(c.Servers) == 0 {
			continue // all servers of an admin were refused: no others are used
		}
		p.Routes = append(p.Routes, forward.Route{
			Domain: c.Domain, Plain: c.Plain, Local: c.Kind == nameserver.Local, Servers: c.Servers, Source: c.String(),
		})
		if p.IsOfCluster(c.Domain) && (c.Source == nameserver.DBus || c.Source == nameserver.Dnsmasq) {
			p.Overrides = append(p.Overrides, c.Domain)
			if c.Source == nameserver.DBus {
				p.note("%s overrides the cluster's names in %s", c, c.Domain)
			}
		}
	}
	for _, c := range p.Lost {
		switch {
		case c.GaveWay:
			p.report(c.Claim)
		case c.IsConflict() && c.By.Source == nameserver.Dnsmasq: // the hook reports conflicts with other sources
			p.Notes = append(p.Notes, c.Sentence())
		}
	}
}

// report reports the refused servers of an effective claim.
func (p *Policy) report(c nameserver.Claim) {
	for _, r := range c.Refused {
		switch {
		case r.Why == nameserver.ComesBack:
			p.Candidates = append(p.Candidates, r.Server)
			p.Problems = append(p.Problems, fmt.Sprintf("ignoring %s (%s): it sends queries back to this node", r.Server, c))
		case r.Why != thisNode:
			p.Problems = append(p.Problems, fmt.Sprintf("ignoring %s (%s): %s", r.Server, c, r.Why))
		case c.Source == nameserver.DBus, c.Source == nameserver.Dnsmasq:
			p.note("ignoring %s for %s (%s): it is this node, so the entry has no effect", r.Server, c.Domain, c)
		default:
			p.Problems = append(p.Problems, fmt.Sprintf("ignoring %s (%s): it is this node and would loop", r.Server, c))
		}
	}
}
