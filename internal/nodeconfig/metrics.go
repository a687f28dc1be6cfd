package nodeconfig

import "net/netip"

// Metrics says where the daemon's numbers are shown, and how they are named.
type Metrics struct {
	// Address is where they are listened for. Zero: nowhere.
	Address netip.AddrPort
	// Namespace is what their names begin with, without the "_" behind it.
	Namespace Namespace
}

// Namespace is what the names of metrics begin with.
type Namespace string

// The values of metrics.namespace.
const (
	NamespaceNodeDNS Namespace = "nodedns"
	NamespaceCoreDNS Namespace = "coredns" // for dashboards that were made for CoreDNS
)

// DefaultMetrics is where they are without a word in node-dns.yaml. CoreDNS has 9153, NodeLocal DNSCache 9253 and 9353.
var DefaultMetrics = Metrics{
	Address:   netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), 9453),
	Namespace: NamespaceNodeDNS,
}

var (
	asMetricsAddress = syntax[netip.AddrPort]{`IP:PORT, as 127.0.0.1:9453, or "none"`, parseMetricsAddress}
	asNamespace      = syntax[Namespace]{"nodedns or coredns", parseWord(NamespaceNodeDNS, NamespaceCoreDNS)}
)

func parseMetricsAddress(text string) (netip.AddrPort, error) {
	if text == "none" {
		return netip.AddrPort{}, nil
	}
	return parseBind(text)
}

var metricsKeys = []key[Config]{
	{name: "address", read: func(r *reader, v value, c *Config) {
		c.Metrics.Address, _ = one(r, v, asMetricsAddress)
	}},
	{name: "namespace", read: func(r *reader, v value, c *Config) {
		c.Metrics.Namespace, _ = one(r, v, asNamespace)
	}},
}

// addressText is as it stands in the file.
func (m Metrics) addressText() string {
	if !m.Address.IsValid() {
		return "none"
	}
	return m.Address.String()
}
