package policy

import (
	"cmp"
	"fmt"
	"slices"
	"sync"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
	"github.com/node-dns/node-dns/internal/kube/cluster"
	"github.com/node-dns/node-dns/internal/kube/clusterdns"
)

// FromCluster is the configuration of the cluster's own DNS, for the key fromCluster. Its Settings
// do not change. It is safe for concurrent use.
type FromCluster struct {
	cluster.Settings

	mu       sync.Mutex           // guards the fields below
	zones    []dnsname.Name       // the cluster's zones
	mayLeave bool                 // see clusterdns.Read
	said     *clusterdns.Settings // parsed for these; nil before the first parse
}

// read parses the objects. It caches the result until its arguments change, because the daemon
// calls it every few seconds.
func (f *FromCluster) read(zones []dnsname.Name, mayLeave bool) *clusterdns.Settings {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.said == nil || !slices.Equal(f.zones, zones) || f.mayLeave != mayLeave {
		said := clusterdns.Read(f.Objects, zones, mayLeave)
		f.zones, f.mayLeave, f.said = zones, mayLeave, &said
	}
	return f.said
}

// maxUnfollowed bounds the notes about unsupported settings.
const maxUnfollowed = 20

// addOwn parses the configuration of the cluster's own DNS, and reports the unsupported parts.
func (p *Policy) addOwn(in Inputs) {
	if in.OwnDNS == nil {
		return
	}
	p.Own = in.OwnDNS.read(p.Apexes, p.mayLeaveToPods(in))
	where := in.Config.Where("fromCluster")
	for _, err := range in.OwnDNS.Failed {
		p.Problems = append(p.Problems, fmt.Sprintf("%s: %v", where, err))
	}
	if p.API == (API{}) {
		p.Problems = append(p.Problems, where+": requires a Kubernetes API (see kubeconfig)")
	}
	for i, u := range p.Own.Unfollowed {
		if i == maxUnfollowed {
			p.note("%d more settings of the cluster's DNS are not followed", len(p.Own.Unfollowed)-i)
			break
		}
		p.note("%s is not followed: %s", u.Where, u.Text)
	}
}

// ownDNSClaims returns the routes of the cluster's own DNS. If a domain is barred, all its servers
// are refused, or no DNS pod is known, its queries fail, because its names must not leak.
func (p *Policy) ownDNSClaims(in Inputs) []nameserver.Claim {
	if p.Own == nil {
		return nil
	}
	var claims []nameserver.Claim
	for _, route := range p.Own.Routes {
		c := nameserver.Claim{
			Source: nameserver.FromCluster, Detail: route.Where, Domain: route.Domain, Servers: route.Servers, GivesWay: route.Domain.IsRoot(),
		}
		switch {
		case route.Local:
			c.Kind = nameserver.Local
		case route.Pods:
			p.usesPods = true
			if c.Servers = p.pods; len(c.Servers) == 0 && len(in.DNSService.Addrs) > 0 {
				p.Problems = append(p.Problems, fmt.Sprintf("%s: no pod of the cluster's DNS is ready to resolve %s", route.Where, route.Domain))
			}
		}
		claims = append(claims, c)
	}
	return claims
}

// Beneath returns the claims for all names that would be effective without fromCluster, strongest
// first.
func (p *Policy) Beneath() []nameserver.Claim {
	isRoot := func(c nameserver.Claim) bool {
		return c.Domain.IsRoot() && !c.Plain && len(c.Servers) > 0 && c.Source != nameserver.FromCluster
	}
	var claims []nameserver.Claim
	for _, r := range p.Won {
		if isRoot(r.Claim) {
			claims = append(claims, r.Claim)
		}
	}
	for _, l := range p.Lost {
		if isRoot(l.Claim) && l.Barred == "" {
			claims = append(claims, l.Claim)
		}
	}
	slices.SortStableFunc(claims, func(a, b nameserver.Claim) int { return cmp.Compare(a.Source, b.Source) })
	return claims
}
