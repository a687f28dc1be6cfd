package policy

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/forward"
	"github.com/node-dns/node-dns/internal/dns/zone"
	"github.com/node-dns/node-dns/internal/kube/cluster"
	"github.com/node-dns/node-dns/internal/nodeconfig"
)

// API says how the Kubernetes API is watched. The zero API means that it is not.
type API struct {
	Original   string // the configured kubeconfig
	Kubeconfig string // the file to read: Original, or the daemon's copy of it
	Node       string
	Features   cluster.Features
}

// NewAPI decides whether the API is watched. kubeconfig is the default file, or "" if it does not
// exist.
func NewAPI(config nodeconfig.Config, kubeconfig, hostname string) API {
	r := config.Resolver
	kubeconfig = config.KubeconfigFile(kubeconfig)
	if kubeconfig == "" {
		return API{}
	}
	node := r.NodeName
	if node == "" {
		node = strings.ToLower(hostname)
	}
	return API{kubeconfig, kubeconfig, node, cluster.Features{
		NodePods: r.Autopath,
		NodeZone: r.SameZoneFirst,
		Settings: r.FromCluster,
		AllPods:  r.PodNames == nodeconfig.PodsVerified,
		PodNames: r.EndpointPodNames,
	}}
}

// Zone returns the configuration for answering cluster names. Its Next is not set.
func (p *Policy) Zone() zone.Config {
	config, r := p.Config, p.Config.Resolver
	z := zone.Config{
		Domains:            []dnsname.Name{config.ClusterDomain},
		EndpointPodNames:   r.EndpointPodNames,
		IgnoreEmptyService: r.IgnoreEmptyService,
		Zonal:              r.ZonalNames,
		SameZoneFirst:      r.SameZoneFirst,
		Namespaces:         r.Namespaces,
		TTL:                r.TTL,
		NegativeTTL:        r.NegativeTTL,
		ServiceCIDRs:       config.ServiceCIDRs,
		PodCIDRs:           config.PodCIDRs,
	}
	if config.ClusterProfile() == nodeconfig.OpenShift {
		z.Profile = zone.OpenShift
	}
	switch r.PodNames {
	case nodeconfig.PodsVerified:
		z.PodNames = zone.PodsVerified
	case nodeconfig.PodsDisabled:
		z.PodNames = zone.PodsDisabled
	}
	if p.NodeIP.IsValid() {
		z.Nameservers = []netip.Addr{p.NodeIP}
	}
	// A route for this domain or a subdomain names a nameserver with more records, such as
	// Submariner's.
	hasOwn := func(r forward.Route) bool { return !r.Plain && r.Domain.Within(ClusterSet()) }
	if !slices.ContainsFunc(p.Routes, hasOwn) {
		z.ClusterSet = ClusterSet()
	}
	return z
}

// ClusterSet returns the domain of names that other clusters export.
func ClusterSet() dnsname.Name { return dnsname.MustParse(zone.ClusterSet) }

// IsOfClusterSet reports whether a name is in ClusterSet but not in the cluster's own domain.
func (p *Policy) IsOfClusterSet(name dnsname.Name) bool {
	return name.Within(ClusterSet()) && !name.Within(p.Config.ClusterDomain)
}
