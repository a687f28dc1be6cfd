package nodeconfig

import (
	"net/netip"
	"time"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
)

// Resolver are the settings of the built-in cluster resolver, which answers for ClusterDomain from the Kubernetes API.
type Resolver struct {
	// Kubeconfig is the file with which the API is asked. "" is the usual one: MasterKubeConfig, else
	// /etc/node-dns/kubeconfig where that exists.
	Kubeconfig string

	// Off keeps the API alone (kubeconfig: none): the cluster's names are forwarded to its DNS servers.
	Off bool

	// NodeName is this node's name in the API; "" is the host name in lower case, as the kubelet has it.
	NodeName string

	// Profile is whose rules are followed where they differ. "": see Config.ClusterProfile.
	Profile Profile

	// PodNames is for which pods A-B-C-D.NAMESPACE.pod names exist.
	PodNames PodNames

	// EndpointPodNames names an endpoint without a hostname after its pod, not after its address.
	EndpointPodNames bool

	// IgnoreEmptyService has the name of a ClusterIP service without ready endpoints not exist.
	IgnoreEmptyService bool

	// ZonalNames has the endpoints of a headless service in one topology zone under names of their own, as CoreDNS's
	// zonal has them.
	ZonalNames bool

	// SameZoneFirst has the addresses of a headless service begin with those in this node's topology zone.
	SameZoneFirst bool

	// FromCluster has what the cluster configures of its own DNS followed: see package clusterdns.
	FromCluster bool

	// Namespaces are those whose names exist. Empty: all.
	Namespaces []string

	// TTL is of positive answers, NegativeTTL of negative ones; a negative duration is the profile's own.
	TTL, NegativeTTL time.Duration

	// SnapshotMaxAge is how old the last known state of the cluster may be that a start serves.
	SnapshotMaxAge time.Duration

	// Autopath answers a pod's query below its search list with what the whole search would have led to.
	Autopath bool

	// Listen are further addresses at which the cluster's names are answered, to Clients alone. They may be unspecified.
	Listen []netip.AddrPort

	// Clients are the networks that may ask at Listen, besides the networks of pods, services and this host's addresses.
	Clients []netip.Prefix
}

// Profile is a set of rules for the cluster's names.
type Profile string

// The profiles.
const (
	Kubernetes Profile = "kubernetes" // the Kubernetes DNS specification 1.1.0, and what CoreDNS adds
	OpenShift  Profile = "openshift"  // SkyDNS in OpenShift 3's node process
)

// PodNames are the ways to answer for A-B-C-D.NAMESPACE.pod, as CoreDNS's `pods` has them.
type PodNames string

// The PodNames.
const (
	PodsDisabled PodNames = "disabled" // none exists
	PodsInsecure PodNames = "insecure" // every address in every namespace, whether there is such a pod or not
	PodsVerified PodNames = "verified" // those of pods that exist; needs the right to watch all pods
)

// ClusterProfile is the profile that is set; else openshift where a node-config.yaml was read.
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

// Bounds of snapshotMaxAge, in seconds.
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
	{name: "zoneProfile", read: func(r *reader, v value, c *Config) {
		c.Resolver.Profile, _ = one(r, v, asProfile)
	}},
	{name: "pods", read: func(r *reader, v value, c *Config) {
		c.Resolver.PodNames, _ = one(r, v, asPodNames)
	}},
	{name: "endpointPodNames", read: func(r *reader, v value, c *Config) {
		c.Resolver.EndpointPodNames, _ = r.boolean(v)
	}},
	{name: "ignoreEmptyService", read: func(r *reader, v value, c *Config) {
		c.Resolver.IgnoreEmptyService, _ = r.boolean(v)
	}},
	{name: "zonalNames", read: func(r *reader, v value, c *Config) {
		c.Resolver.ZonalNames, _ = r.boolean(v)
	}},
	{name: "sameZoneFirst", read: func(r *reader, v value, c *Config) {
		c.Resolver.SameZoneFirst, _ = r.boolean(v)
	}},
	{name: "fromCluster", read: func(r *reader, v value, c *Config) {
		c.Resolver.FromCluster, _ = r.boolean(v)
	}},
	{name: "namespaces", read: func(r *reader, v value, c *Config) {
		c.Resolver.Namespaces, _ = many(r, v, maxRoutes, asLabel)
	}},
	{name: "clusterTTL", read: func(r *reader, v value, c *Config) {
		c.Resolver.TTL = r.seconds(v)
	}},
	{name: "clusterNegativeTTL", read: func(r *reader, v value, c *Config) {
		c.Resolver.NegativeTTL = r.seconds(v)
	}},
	{name: "snapshotMaxAge", read: func(r *reader, v value, c *Config) {
		n, _ := r.number(v, leastSnapshotMaxAge, mostSnapshotMaxAge)
		c.Resolver.SnapshotMaxAge = time.Duration(n) * time.Second
	}},
	{name: "autopath", read: func(r *reader, v value, c *Config) {
		c.Resolver.Autopath, _ = r.boolean(v)
	}},
	{name: "clusterListen", read: func(r *reader, v value, c *Config) {
		c.Resolver.Listen, _ = many(r, v, maxServers, asBind)
	}},
	{name: "clusterClients", read: func(r *reader, v value, c *Config) {
		c.Resolver.Clients, _ = many(r, v, maxPrefixes, asPrefix)
	}},
}

func readNodeName(r *reader, v value, c *Config) {
	c.Resolver.NodeName, _ = one(r, v, asNodeName)
}

func (r *reader) seconds(v value) time.Duration {
	n, _ := r.number(v, 0, maxTTL)
	return time.Duration(n) * time.Second
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

// parseLabel reads a namespace: a DNS label of RFC 1123, in lower case, as the API has it.
func parseLabel(text string) (string, error) {
	if len(text) > 63 || !isLowerName(text, "") {
		return "", errSyntax
	}
	return text, nil
}

// parseNodeName reads a DNS subdomain of RFC 1123.
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
