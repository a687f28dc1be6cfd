package nodeconfig

import (
	"net/netip"
	"slices"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
)

// ReverseZones returns the reverse zones that are resolved like the cluster's zone, each once:
// those of ServiceCIDRs and PodCIDRs.
//
// If ServiceCIDRs is unknown, the network around each of the cluster's DNS servers is used, because
// such a server is a service: a /16 for IPv4, so that 172.30.0.1 gives 30.172.in-addr.arpa as
// OpenShift 3 had it in dnsmasq, and a /112 for IPv6, the size in kubeadm's documentation. A
// loopback or link-local server is not a service.
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

// serviceNetwork guesses the network of a service address. It returns nil if addr is not one.
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
