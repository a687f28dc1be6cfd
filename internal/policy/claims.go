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

// thisNode is why an address that we listen on is not asked.
const thisNode = "this node: would loop"

// claims are the routes that all sources ask for.
func (p *Policy) claims(in Inputs) []nameserver.Claim {
	claims := slices.Concat(p.busClaims(in), p.clusterClaims(), p.fileClaims(in))
	claims = append(claims, rootClaim(nameserver.CommandLine, "", in.Upstreams, false))
	claims = append(claims, in.Config.Claims(in.Recursive)...)
	claims = append(claims, p.ownDNSClaims()...)
	claims = append(claims, p.capturedClaims(in)...)
	// Who names no server for all names says nothing of them.
	claims = slices.DeleteFunc(claims, func(c nameserver.Claim) bool {
		return c.Domain.IsRoot() && c.Kind == nameserver.Ask && len(c.Servers) == 0
	})
	for i := range claims {
		p.refuse(&claims[i])
	}
	return claims
}

func rootClaim(source nameserver.Source, detail string, servers []nameserver.Server, givesWay bool) nameserver.Claim {
	return nameserver.Claim{Source: source, Detail: detail, Domain: dnsname.Root(), Servers: servers, GivesWay: givesWay}
}

// busClaims are the routes that were set over D-Bus. Only root can set them, and a caller who names the cluster's domain means it. A
// route for a shorter domain, or for all names, takes nothing from the cluster's domain.
func (p *Policy) busClaims(in Inputs) []nameserver.Claim {
	var claims []nameserver.Claim
	for _, route := range dnsmasqconf.Routes(in.Bus.Rules) {
		c := ruleClaim(nameserver.DBus, in.Bus.RulesBy, route)
		c.GivesWay = route.Domain.IsRoot()
		switch {
		case route.Kind == dnsmasqconf.Local && p.IsOfCluster(route.Domain) && p.API != (API{}):
			c.Barred = "the built-in cluster resolver answers it: that is what is known here"
			p.note("/%s/ (%s) is answered by the built-in cluster resolver: that is what is known here", route.Domain.Relative(), c)
		case route.Kind == dnsmasqconf.Standard && route.Domain.IsRoot():
			continue // which says nothing
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

// capturedClaims are the routes of the host: of the source that counts, and of those that lost against it.
func (p *Policy) capturedClaims(in Inputs) []nameserver.Claim {
	var claims []nameserver.Claim
	for _, route := range in.Captured.Routes {
		c := nameserver.Claim{Source: in.From, Detail: cmp.Or(route.Source, in.Origin), Domain: route.Domain, Servers: route.Servers}
		if p.IsOfCluster(route.Domain) {
			// DHCP and a VPN have no say in the cluster's names.
			c.Barred = "it lies in the cluster's zone"
			p.Problems = append(p.Problems, fmt.Sprintf("the route for %s (%s) lies in the cluster's zone: it is left out", route.Domain, c))
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

// refuse leaves out the servers of a claim that must not be asked: addresses that we listen on, whoever named them (law 3), and
// servers that send our queries back. dnsmasq passes over its own addresses ("ignoring nameserver - local interface"), and so do those
// who write for dnsmasq: OpenShift's SDN names 127.0.0.1 for cluster.local and in-addr.arpa, where its own nameserver was. Here that
// nameserver is node-dns, which answers the cluster's names anyway. For other names the domain has no servers of its own.
func (p *Policy) refuse(c *nameserver.Claim) {
	if c.Kind != nameserver.Ask {
		return
	}
	var usable []nameserver.Server
	asDnsmasq := c.Source == nameserver.DBus || c.Source == nameserver.Dnsmasq
	for _, server := range c.Servers {
		_, loops := p.looping[server]
		var bind error
		if c.Source == nameserver.Dnsmasq { // of D-Bus the caller was told
			bind = exchange.MayBind(server)
		}
		switch {
		case !server.TLS && slices.Contains(p.Listen, server.Addr):
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

// settle takes over the claims that won, and notes what is odd about the others.
func (p *Policy) settle(claims []nameserver.Claim) {
	p.Won, p.Lost = nameserver.Settle(claims)
	for _, c := range p.Won {
		p.Candidates = append(p.Candidates, c.Servers...)
		p.report(c.Claim)
		if c.Domain.IsRoot() && !c.Plain && c.Kind == nameserver.Ask && len(c.Servers) == 0 {
			continue // an admin's servers are all refused: no others are asked
		}
		p.Routes = append(p.Routes, forward.Route{
			Domain: c.Domain, Plain: c.Plain, Local: c.Kind == nameserver.Local, Servers: c.Servers, Source: c.String(),
		})
		if p.IsOfCluster(c.Domain) && (c.Source == nameserver.DBus || c.Source == nameserver.Dnsmasq) {
			p.Overrides = append(p.Overrides, c.Domain)
			if c.Source == nameserver.DBus {
				p.note("the cluster's names in %s are not answered as the cluster's: %s", c.Domain, c)
			}
		}
	}
	for _, c := range p.Lost {
		switch {
		case c.GaveWay:
			p.report(c.Claim)
		case c.IsConflict() && c.By.Source == nameserver.Dnsmasq: // of others the hook says it
			p.Notes = append(p.Notes, c.Sentence())
		}
	}
}

// report says which servers of a claim that counts are not asked.
func (p *Policy) report(c nameserver.Claim) {
	for _, r := range c.Refused {
		switch {
		case r.Why == nameserver.ComesBack:
			p.Candidates = append(p.Candidates, r.Server)
			p.Problems = append(p.Problems, fmt.Sprintf("%s (%s) sends our queries back to us: it is left out", r.Server, c))
		case r.Why != thisNode:
			p.Problems = append(p.Problems, fmt.Sprintf("%s (%s): %s: it is left out", r.Server, c, r.Why))
		case c.Source == nameserver.DBus, c.Source == nameserver.Dnsmasq:
			p.note("%s for %s (%s) is this node: it is left out, and its names are answered as without it", r.Server, c.Domain, c)
		default:
			p.Problems = append(p.Problems, fmt.Sprintf("%s (%s) is this node: it would loop, and is left out", r.Server, c))
		}
	}
}
