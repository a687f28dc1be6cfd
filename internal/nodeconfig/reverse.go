package nodeconfig

import (
	"net/netip"
	"slices"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
)

// ReverseZones returns the reverse zones that belong to the cluster and go where its zone goes, each once: those of
// ServiceCIDRs and of PodCIDRs.
//
// While ServiceCIDRs is unknown the network around each of the cluster's DNS servers stands in for it, since such a
// server is a service: a /16 for IPv4, so that 172.30.0.1 gives 30.172.in-addr.arpa as OpenShift 3 had it in dnsmasq; a
// /112 for IPv6, the size that kubeadm's documentation gives. A loopback or link-local server is no service.
func (c Config) ReverseZones(clusterDNS []nameserver.Server) []dnsname.Name {
	services := c.ServiceCIDRs
	if services == nil {
		for _, server := range clusterDNS {
			services = append(services, serviceNetwork(server.Addr.Addr())...)
		}
	}
	var zones []dnsname.Name
	seen := map[dnsname.Name]bool{}
	for _, prefix := range slices.Concat(services, c.PodCIDRs) {
		for _, zone := range dnsname.ReverseZones(prefix) {
			if !seen[zone] {
				seen[zone] = true
				zones = append(zones, zone)
			}
		}
	}
	return zones
}

// serviceNetwork guesses the network of a service's address; nil when addr is none.
func serviceNetwork(addr netip.Addr) []netip.Prefix {
	addr = addr.Unmap()
	if !addr.IsValid() || addr.IsLoopback() || addr.IsLinkLocalUnicast() {
		return nil
	}
	bits := 112
	if addr.Is4() {
		bits = 16
	}
	return []netip.Prefix{netip.PrefixFrom(addr, bits).Masked()}
}
