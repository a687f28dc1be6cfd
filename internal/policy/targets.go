package policy

import (
	"slices"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
)

const (
	// maxTargets is the number of routes that are asked, all at once: a rollout continues after
	// minReadySeconds of the chart, even if the nameservers of all routes are silent.
	maxTargets = 64
	// maxReferences is the number of nameservers of a kind that are queried directly after a
	// failure.
	maxReferences = 4
)

// A Target is a route that end-to-end questions are for, and the nameservers to compare with.
type Target struct {
	Domain     dnsname.Name
	Servers    []nameserver.Server
	References []Reference
}

// A Reference is a nameserver that is queried directly after a failure.
type Reference struct {
	Server nameserver.Server
	// IsOther means that the route does not have the server. Its NXDOMAIN says nothing: it need not
	// know the names of the route.
	IsOther bool
}

// Targets returns the routes to ask: that of the root, and those of other domains outside of the
// cluster.
func (p *Policy) Targets() []Target {
	root, lostRoot := p.rootServers(), p.lostServers(dnsname.Root())
	var all []Target
	if len(root) > 0 {
		all = append(all, Target{dnsname.Root(), root, references(slices.Concat(root, lostRoot), false)})
	}
	for _, won := range p.Won {
		if won.Domain.IsRoot() || won.Kind != nameserver.Ask || len(won.Servers) == 0 || p.IsOfCluster(won.Domain) {
			continue
		}
		if len(all) == maxTargets {
			break
		}
		t := Target{won.Domain, won.Servers, references(won.Servers, false)}
		if won.Source == nameserver.NodeDNS {
			// A rollout changes only this source. Compare with the node's nameservers without the
			// route, in case it names the wrong ones. Other sources change on all nodes at once.
			t.References = append(t.References, references(slices.Concat(p.lostServers(won.Domain), root, lostRoot), true)...)
		}
		all = append(all, t)
	}
	return all
}

func (p *Policy) rootServers() []nameserver.Server {
	for _, r := range p.Routes {
		if r.Domain.IsRoot() && !r.Plain {
			return r.Servers
		}
	}
	return nil
}

// lostServers returns the nameservers of sources that lost a domain, such as the node's own if the
// configuration has upstreams.
func (p *Policy) lostServers(domain dnsname.Name) (all []nameserver.Server) {
	for _, lost := range p.Lost {
		if lost.Domain == domain && !lost.Plain && lost.Kind == nameserver.Ask && lost.Barred == "" {
			all = append(all, lost.Servers...)
		}
	}
	return all
}

// references returns the first plain nameservers.
func references(servers []nameserver.Server, areOthers bool) (all []Reference) {
	for _, s := range servers {
		if r := (Reference{s, areOthers}); !s.TLS && len(all) < maxReferences && !slices.Contains(all, r) {
			all = append(all, r)
		}
	}
	return all
}
