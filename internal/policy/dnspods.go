package policy

import (
	"cmp"
	"hash/fnv"
	"slices"

	"github.com/node-dns/node-dns/internal/dns/nameserver"
	"github.com/node-dns/node-dns/internal/dns/zone"
	"github.com/node-dns/node-dns/internal/kube/clusterdns"
	"github.com/node-dns/node-dns/internal/nodeconfig"
)

// mayLeaveToPods reports whether the cluster's DNS pods resolve names that node-dns cannot. That
// requires interception, and an /etc/resolv.conf that does not name this node, because these pods
// usually forward there. Once the cluster is known, its DNS Service must be in the namespace of its
// DNS's configuration: anyone who may create a namespace could name a Service like that of another
// distribution.
func (p *Policy) mayLeaveToPods(in Inputs) bool {
	wanted := p.Config.Intercept
	isOurs := func(o clusterdns.Object) bool { return o.Namespace == in.DNSService.Namespace }
	return (wanted.Cilium || !wanted.IsNone()) && p.API != (API{}) && p.Config.ResolvConf == nodeconfig.ResolvConfNone &&
		(!in.DNSService.IsKnown || len(in.DNSService.Addrs) > 0 && slices.ContainsFunc(in.OwnDNS.Objects, isOurs))
}

// bypassService replaces the cluster's DNS Service among the servers of a claim by its pods, if
// queries to the Service are to come here. Without a known pod the claim keeps the Service, and
// refuse removes it once it is this node. So does a claim for the cluster's own names, which
// node-dns answers.
func (p *Policy) bypassService(in Inputs, c *nameserver.Claim) {
	if p.IsOfCluster(c.Domain) {
		return
	}
	isHere := func(s nameserver.Server) bool {
		addr := s.Addr.Addr()
		return !s.TLS && s.Addr.Port() == nameserver.Port && slices.Contains(in.DNSService.Addrs, addr) &&
			(slices.Contains(p.Intercept, addr) || slices.Contains(p.Redirected, addr))
	}
	i := slices.IndexFunc(c.Servers, isHere)
	if i < 0 {
		return
	}
	if p.usesPods = true; len(p.pods) == 0 {
		return
	}
	p.note("%s (%s) is the cluster's DNS Service, queries to which are intercepted: its pods are queried instead", c.Servers[i], *c)
	others := slices.DeleteFunc(slices.Clone(c.Servers), isHere)
	c.Servers = slices.Insert(others, i, p.pods...)
}

const maxDNSPods = 3

// choosePods returns the DNS pods that a node queries. Nodes choose different ones, and keep them
// while others come and go (rendezvous hashing). The order of the pods does not matter.
func choosePods(pods []nameserver.Server, node string) []nameserver.Server {
	type weighed struct {
		nameserver.Server
		weight uint64
	}
	all := make([]weighed, 0, len(pods))
	for _, s := range pods {
		h := fnv.New64a()
		_, _ = h.Write([]byte(s.String() + " " + node)) // never fails
		all = append(all, weighed{s, h.Sum64()})
	}
	slices.SortFunc(all, func(a, b weighed) int {
		return cmp.Or(cmp.Compare(a.weight, b.weight), a.Addr.Compare(b.Addr))
	})
	var chosen []nameserver.Server
	for _, s := range all[:min(len(all), maxDNSPods)] {
		chosen = append(chosen, s.Server)
	}
	return chosen
}

// GroupPods returns the servers with one zero Server in place of all DNS pods, so that two Policies
// differ only if other servers do. A pod that sends queries back is found by these queries.
func (p *Policy) GroupPods(servers []nameserver.Server) []nameserver.Server {
	var grouped []nameserver.Server
	for _, s := range servers {
		if slices.Contains(p.pods, s) {
			s = nameserver.Server{}
		}
		if s != (nameserver.Server{}) || !slices.Contains(grouped, s) {
			grouped = append(grouped, s)
		}
	}
	return grouped
}

// HasServersOf reports whether p has the same servers as before, apart from DNS pods.
func (p *Policy) HasServersOf(before *Policy) bool {
	return slices.Equal(p.GroupPods(p.Candidates), before.GroupPods(before.Candidates))
}

// HasOtherPods reports whether p uses DNS pods, and s has others for it.
func (p *Policy) HasOtherPods(s *zone.Snapshot) bool {
	if !p.usesPods {
		return false
	}
	pods := choosePods(NewDNSService(s).Pods, p.API.Node)
	return len(pods) > 0 && !slices.Equal(pods, p.pods)
}
