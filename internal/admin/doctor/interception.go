package doctor

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/node-dns/node-dns/internal/admin/migrate"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
)

// checkInterception checks that pods' queries come here, if the configuration wants that. A query
// that does not is answered by the cluster's DNS pods.
func checkInterception(s Snapshot) []Finding {
	if s.Status == nil || s.Status.Interception == nil {
		return nil
	}
	i := s.Status.Interception
	if i.Why != "" {
		return []Finding{warn("pods' queries to "+strings.Join(i.Wanted, ", ")+" do not come to this node: "+i.Why, s.interceptionFix(""))}
	}
	var found []Finding
	for _, a := range i.Addresses {
		if a.IsStandby() {
			found = append(found, s.standby(a.Address))
		}
	}
	for _, a := range i.Off() {
		found = append(found, warn("pods' queries to "+a.Address+" do not come to this node: "+a.Why, s.interceptionFix(a.Why)))
	}
	if !i.Owned {
		found = append(found, warn("this kernel keeps the interception's rules if node-dns-intercept is killed, until systemd removes them",
			"Linux 5.12 or later removes them itself"))
	}
	return orFine(found, "pods' queries to %s come to this node", strings.Join(i.Wanted, ", "))
}

// interceptionFix returns what to do about the reason why queries do not come here.
func (s Snapshot) interceptionFix(why string) string {
	cluster := s.Status.Cluster
	switch {
	case s.hasCilium() && strings.Contains(why, "another nameserver answers"):
		// Cilium translates the address of a Service in the socket, before any rule sees a packet.
		return "Cilium replaces kube-proxy here, so that the queries cannot be intercepted: remove intercept from " + nodeDNSYAML +
			", and give pods the address of this node (clusterDNS of the kubelet)"
	case strings.Contains(why, "packet filter"):
		return "let pods query this host (see the check input-filter, and nft list ruleset), then systemctl restart node-dns-intercept.service"
	case strings.Contains(why, "of this host has it"):
		return "remove the address from intercept in " + nodeDNSYAML + ": queries to it arrive without interception"
	case cluster.Resolver == nil, cluster.Resolver.Error != "":
		return "node-dns needs the Kubernetes API first: see the check cluster"
	}
	return "systemctl restart node-dns-intercept.service, then journalctl -u node-dns-intercept"
}

// standby returns the Finding for an address that the link of NodeLocal DNSCache has.
func (s Snapshot) standby(addr string) Finding {
	at, _ := netip.ParseAddr(addr) // it is one of netip's own
	answers := func(h migrate.Holder) bool { return h.Covers(netip.AddrPortFrom(at, nameserver.Port)) }
	if s.Host.Root && !slices.ContainsFunc(s.Host.Holders, answers) {
		return warn("no program answers at "+addr+", which the link nodelocaldns has: NodeLocal DNSCache ended without removing it",
			"node-dns migrate --undo, then node-dns migrate --apply, removes the link's addresses, unless the kubelet starts the cache again")
	}
	return warn("NodeLocal DNSCache answers pods' queries to "+addr+" until it leaves this node", "node-dns migrate prints how")
}

func (s Snapshot) hasCilium() bool {
	for _, a := range s.Host.State.Net.Addrs {
		if strings.HasPrefix(a.Interface, "cilium_") {
			return true
		}
	}
	return false
}
