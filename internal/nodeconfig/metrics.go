package nodeconfig

import "net/netip"

// Metrics configures the daemon's metrics.
type Metrics struct {
	// Address is the listen address. Zero means no listener.
	Address netip.AddrPort
	// Namespace is the prefix of the names, without the following "_".
	Namespace Namespace
}

// Namespace is the prefix of metric names.
type Namespace string

// Values of metrics.namespace.
const (
	NamespaceNodeDNS Namespace = "nodedns"
	NamespaceCoreDNS Namespace = "coredns" // for dashboards made for CoreDNS
)

// DefaultMetrics is the default of metrics. CoreDNS uses port 9153, NodeLocal DNSCache 9253 and
// 9353.
var DefaultMetrics = Metrics{
	Address:   netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), 9453),
	Namespace: NamespaceNodeDNS,
}

var (
	asMetricsAddress = syntax[netip.AddrPort]{`IP:PORT such as 127.0.0.1:9453, or "none"`, parseMetricsAddress}
	asNamespace      = syntax[Namespace]{"nodedns or coredns", parseWord(NamespaceNodeDNS, NamespaceCoreDNS)}
)

func parseMetricsAddress(text string) (netip.AddrPort, error) {
	if text == "none" {
		return netip.AddrPort{}, nil
	}
	return parseBind(text)
}

var metricsKeys = []key[Config]{
	{name: "address", read: func(r *reader, v value, c *Config) { c.Metrics.Address, _ = one(r, v, asMetricsAddress) }},
	{name: "namespace", read: func(r *reader, v value, c *Config) { c.Metrics.Namespace, _ = one(r, v, asNamespace) }},
}

// addressText returns the address as in the file.
func (m Metrics) addressText() string {
	if !m.Address.IsValid() {
		return "none"
	}
	return m.Address.String()
}
