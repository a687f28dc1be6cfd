package policy

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/node-dns/node-dns/internal/dns/nameserver"
	"github.com/node-dns/node-dns/internal/intercept"
	"github.com/node-dns/node-dns/internal/nodeconfig"
)

// addIntercept decides which addresses to intercept, and which are redirected to this pod. Without
// the API, cluster names would have to be forwarded to one of these addresses.
func (p *Policy) addIntercept(in Inputs, place nodeconfig.Placement) {
	switch wanted := in.Config.Intercept; {
	case wanted.IsNone() && !wanted.Cilium:
	case p.API == (API{}):
		p.Problems = append(p.Problems, in.Config.Where("intercept")+": requires a Kubernetes API (see kubeconfig)")
	case wanted.Cilium:
		p.Redirected = in.DNSService.Addrs
	default:
		p.Intercept, p.Translate = place.Intercept, place.Translate
	}
}

// comesHere reports whether a query to a server would come back to this process: node-dns listens
// there, or Cilium redirects it.
func (p *Policy) comesHere(s nameserver.Server) bool {
	return !s.TLS && (slices.Contains(p.Listen, s.Addr) || s.Addr.Port() == nameserver.Port && slices.Contains(p.Redirected, s.Addr.Addr()))
}

// IsThisHost reports whether a client is this host. If Cilium redirects a pod's own query to the
// pod outside of the socket, its source is link-local (169.254.42.1).
func (p *Policy) IsThisHost(client netip.Addr) bool {
	return p.Net.IsLocal(client) || p.Config.Intercept.Cilium && client.Unmap().IsLinkLocalUnicast()
}

// leaveUpstreams removes the addresses that a source names as upstreams from those to intercept.
// The helper makes an address local, so this node could not reach that upstream any more. The
// address of the cluster's DNS Service stays: as an upstream it would be a loop anyway.
func (p *Policy) leaveUpstreams(dnsService []netip.Addr, claims []nameserver.Claim) {
	p.Intercept = slices.DeleteFunc(slices.Clone(p.Intercept), func(addr netip.Addr) bool {
		i := slices.IndexFunc(claims, func(c nameserver.Claim) bool { return !p.IsOfCluster(c.Domain) && namesServer(c, addr) })
		if i < 0 || slices.Contains(dnsService, addr) {
			return false
		}
		p.Problems = append(p.Problems, fmt.Sprintf("not intercepting %s: it is an upstream (%s) that this node must reach", addr, claims[i]))
		return true
	})
}

// namesServer reports whether a claim has a server at an address, refused or not.
func namesServer(c nameserver.Claim, addr netip.Addr) bool {
	return slices.ContainsFunc(c.Servers, func(s nameserver.Server) bool { return s.Addr.Addr() == addr }) ||
		slices.ContainsFunc(c.Refused, func(r nameserver.Refused) bool { return r.Server.Addr.Addr() == addr })
}

// InterceptRequest returns what the helper must do while the daemon answers cluster names.
func (p *Policy) InterceptRequest() intercept.Request {
	r := intercept.Request{Addrs: p.Intercept, Translate: p.Translate}
	for _, at := range p.Listen {
		addr := at.Addr()
		if at.Port() == nameserver.Port && intercept.Check(addr) == nil && !slices.Contains(p.Intercept, addr) && r.Node(addr) == (netip.Addr{}) {
			r.Nodes = append(r.Nodes, addr)
		}
	}
	return r
}
