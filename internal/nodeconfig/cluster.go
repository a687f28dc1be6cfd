package nodeconfig

import (
	"net/netip"
	"slices"
	"time"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
)

// Resolver has the settings of the built-in cluster resolver, which answers for ClusterDomain from
// the Kubernetes API.
type Resolver struct {
	// Kubeconfig is the kubeconfig for the API. If empty, it is MasterKubeConfig, or else
	// /etc/node-dns/kubeconfig if that exists.
	Kubeconfig string

	// Off disables the use of the API (kubeconfig: none). The cluster's names are then forwarded to
	// its DNS servers.
	Off bool

	// NodeName is this node's name in the API. If empty, it is the host name in lower case, as in
	// the kubelet.
	NodeName string

	// Profile selects the rules where they differ. If empty, see Config.ClusterProfile.
	Profile Profile

	// PodNames selects the pods for which A-B-C-D.NAMESPACE.pod names exist.
	PodNames PodNames

	// EndpointPodNames names an endpoint without a hostname after its pod instead of its address.
	EndpointPodNames bool

	// IgnoreEmptyService removes the names of ClusterIP services without ready endpoints.
	IgnoreEmptyService bool

	// ZonalNames adds names for the endpoints of a headless service in one topology zone, like
	// CoreDNS's zonal.
	ZonalNames bool

	// SameZoneFirst puts the addresses in this node's topology zone first in the answers for
	// headless services.
	SameZoneFirst bool

	// FromCluster follows the configuration of the cluster's own DNS: see package clusterdns.
	FromCluster bool

	// Namespaces lists the namespaces whose names exist. Empty means all.
	Namespaces []string

	// TTL applies to positive answers, NegativeTTL to negative ones. A negative duration means the
	// default of the profile.
	TTL, NegativeTTL time.Duration

	// SnapshotMaxAge is the maximum age of the saved cluster state that may be served after a
	// start.
	SnapshotMaxAge time.Duration

	// Autopath answers a pod's query below its search list with the result of the complete search.
	Autopath bool

	// Listen has more addresses for the cluster's names, open only to Clients. They may be
	// unspecified.
	Listen []netip.AddrPort

	// Clients are the networks that may query at Listen, besides those of pods and services and
	// this host's addresses.
	Clients []netip.Prefix
}

// Profile is a set of rules for the cluster's names.
type Profile string

// Values of zoneProfile.
const (
	Kubernetes Profile = "kubernetes" // the Kubernetes DNS specification 1.1.0 and CoreDNS's additions
	OpenShift  Profile = "openshift"  // like SkyDNS in OpenShift 3's node process
)

// PodNames is a way to answer A-B-C-D.NAMESPACE.pod names, like CoreDNS's `pods`.
type PodNames string

// Values of pods.
const (
	PodsDisabled PodNames = "disabled" // no such names exist
	PodsInsecure PodNames = "insecure" // every address exists in every namespace, whether there is such a pod or not
	PodsVerified PodNames = "verified" // only names of existing pods; needs the right to watch all pods
)

// ClusterProfile returns the configured profile. The default is openshift if a node-config.yaml was
// read, else kubernetes.
func (c Config) ClusterProfile() Profile {
	switch {
	case c.Resolver.Profile != "":
		return c.Resolver.Profile
	case c.IsOpenShift:
		return OpenShift
	}
	return Kubernetes
}

const maxTTL = 24 * 60 * 60 // seconds

// Limits of snapshotMaxAge, in seconds.
const (
	leastSnapshotMaxAge   = 60
	defaultSnapshotMaxAge = 7 * 24 * time.Hour
	mostSnapshotMaxAge    = 10 * 365 * 24 * 60 * 60
)

var (
	asKubeconfig = syntax[string]{`the path of a kubeconfig, or "none"`, parsePath}
	asProfile    = syntax[Profile]{"kubernetes or openshift", parseWord(Kubernetes, OpenShift)}
	asPodNames   = syntax[PodNames]{"disabled, insecure or verified", parseWord(PodsDisabled, PodsInsecure, PodsVerified)}
	asLabel      = syntax[string]{"the name of a namespace", parseLabel}
	asNodeName   = syntax[string]{"the name of a node", parseNodeName}
)

// resolverKeys are the keys of node-dns.yaml for the built-in cluster resolver.
var resolverKeys = []key[Config]{
	{name: "kubeconfig", read: func(r *reader, v value, c *Config) {
		text, ok := one(r, v, asKubeconfig)
		if c.Resolver.Off = text == "none"; ok && !c.Resolver.Off {
			c.Resolver.Kubeconfig = r.path(text)
		}
	}},
	{name: "nodeName", read: readNodeName},
	{name: "zoneProfile", read: func(r *reader, v value, c *Config) { c.Resolver.Profile, _ = one(r, v, asProfile) }},
	{name: "pods", read: func(r *reader, v value, c *Config) { c.Resolver.PodNames, _ = one(r, v, asPodNames) }},
	{name: "endpointPodNames", read: func(r *reader, v value, c *Config) { c.Resolver.EndpointPodNames = r.boolean(v) }},
	{name: "ignoreEmptyService", read: func(r *reader, v value, c *Config) { c.Resolver.IgnoreEmptyService = r.boolean(v) }},
	{name: "zonalNames", read: func(r *reader, v value, c *Config) { c.Resolver.ZonalNames = r.boolean(v) }},
	{name: "sameZoneFirst", read: func(r *reader, v value, c *Config) { c.Resolver.SameZoneFirst = r.boolean(v) }},
	{name: "fromCluster", read: func(r *reader, v value, c *Config) { c.Resolver.FromCluster = r.boolean(v) }},
	{name: "namespaces", read: func(r *reader, v value, c *Config) { c.Resolver.Namespaces, _ = many(r, v, maxRoutes, asLabel) }},
	{name: "clusterTTL", read: func(r *reader, v value, c *Config) { c.Resolver.TTL = r.seconds(v, 0, maxTTL) }},
	{name: "clusterNegativeTTL", read: func(r *reader, v value, c *Config) { c.Resolver.NegativeTTL = r.seconds(v, 0, maxTTL) }},
	{name: "snapshotMaxAge", read: func(r *reader, v value, c *Config) {
		c.Resolver.SnapshotMaxAge = r.seconds(v, leastSnapshotMaxAge, mostSnapshotMaxAge)
	}},
	{name: "autopath", read: func(r *reader, v value, c *Config) { c.Resolver.Autopath = r.boolean(v) }},
	{name: "clusterListen", read: func(r *reader, v value, c *Config) { c.Resolver.Listen, _ = many(r, v, maxServers, asBind) }},
	{name: "clusterClients", read: func(r *reader, v value, c *Config) { c.Resolver.Clients, _ = many(r, v, maxPrefixes, asPrefix) }},
}

func readNodeName(r *reader, v value, c *Config) { c.Resolver.NodeName, _ = one(r, v, asNodeName) }

func (r *reader) seconds(v value, least, most int) time.Duration {
	return time.Duration(r.number(v, least, most)) * time.Second
}

func parseWord[T ~string](words ...T) func(string) (T, error) {
	return func(text string) (T, error) {
		for _, word := range words {
			if text == string(word) {
				return word, nil
			}
		}
		return "", errSyntax
	}
}

// parseLabel parses a namespace: a lowercase DNS label (RFC 1123), as in the API.
func parseLabel(text string) (string, error) {
	if len(text) > 63 || !isLowerName(text, "") {
		return "", errSyntax
	}
	return text, nil
}

// parseNodeName parses a DNS subdomain (RFC 1123).
func parseNodeName(text string) (string, error) {
	if _, err := dnsname.Parse(text); err != nil || !isLowerName(text, ".") {
		return "", errSyntax
	}
	return text, nil
}

func isLowerName(text, more string) bool {
	for i := range len(text) {
		c := text[i]
		if !('a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '-' || more != "" && c == more[0]) {
			return false
		}
	}
	return text != ""
}

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
