package nodeconfig

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/node-dns/node-dns/internal/dns/nameserver"
	"github.com/node-dns/node-dns/internal/intercept"
)

// Intercept selects the addresses at which pods reach this node without a change to their
// configuration. The zero Intercept means none.
type Intercept struct {
	ClusterDNS bool         // the addresses of the cluster's DNS Service
	Addrs      []netip.Addr // these addresses

	// Cilium means that node-dns runs in a pod with a network of its own, and that Cilium redirects
	// the queries of the node's pods to it while it is ready (CiliumLocalRedirectPolicy). The
	// others are then empty.
	Cilium bool
}

// asIntercept reads one word of intercept.
var asIntercept = syntax[Intercept]{`"none", "clusterDNS", "cilium" or an IP address`, parseIntercept}

func parseIntercept(text string) (Intercept, error) {
	switch text {
	case "none":
		return Intercept{}, nil
	case "clusterDNS":
		return Intercept{ClusterDNS: true}, nil
	case "cilium":
		return Intercept{Cilium: true}, nil
	}
	addr, err := parseIP(text)
	if err != nil {
		return Intercept{}, err
	}
	if err := intercept.Check(addr); err != nil {
		return Intercept{}, reason(err.Error())
	}
	return Intercept{Addrs: []netip.Addr{addr}}, nil
}

// readIntercept reads one string, or a list of strings that are combined.
func readIntercept(r *reader, v value, c *Config) {
	var all Intercept
	for _, one := range oneOrMany(r, v, intercept.MaxAddrs, asIntercept) {
		all.ClusterDNS = all.ClusterDNS || one.ClusterDNS
		all.Addrs = append(all.Addrs, one.Addrs...)
		all.Cilium = all.Cilium || one.Cilium
	}
	if all.Cilium && !all.IsNone() {
		r.fault(v, `"cilium" alone`, listText(strings.Fields(all.String())))
		return
	}
	c.Intercept = all
}

// String returns the setting as in the file.
func (i Intercept) String() string {
	var words []string
	if i.ClusterDNS {
		words = append(words, "clusterDNS")
	}
	for _, addr := range i.Addrs {
		words = append(words, addr.String())
	}
	if i.Cilium {
		words = append(words, "cilium")
	}
	if len(words) == 0 {
		return "none"
	}
	return listText(words)
}

// IsNone reports whether node-dns-intercept has nothing to intercept.
func (i Intercept) IsNone() bool { return !i.ClusterDNS && len(i.Addrs) == 0 }

// isCaches reports whether an address is NodeLocal DNSCache's own, without a Service behind it. It
// is link-local (169.254.20.10), or one that the key names beside clusterDNS, such as one in
// fd00::/8 on an IPv6 cluster.
func (i Intercept) isCaches(addr netip.Addr) bool {
	return addr.IsLinkLocalUnicast() || i.ClusterDNS && slices.Contains(i.Addrs, addr)
}

// interceptable returns the addresses that intercept names, without duplicates. The cluster's DNS
// Service has the addresses in the API, those that the kubelet gives to pods, and those that
// clusterDNS names at port 53.
func (c Config) interceptable(dnsService []netip.Addr) []netip.Addr {
	addrs := slices.Clone(c.Intercept.Addrs)
	if c.Intercept.ClusterDNS {
		addrs = slices.Concat(addrs, dnsService, c.DNSIPs)
		for _, server := range c.ClusterDNS {
			if server.Addr.Port() == nameserver.Port && !server.TLS {
				addrs = append(addrs, server.Addr.Addr())
			}
		}
	}
	var list []netip.Addr
	for _, addr := range addrs {
		if addr = addr.Unmap(); intercept.Check(addr) == nil && !slices.Contains(list, addr) && len(list) < intercept.MaxAddrs {
			list = append(list, addr)
		}
	}
	return list
}
