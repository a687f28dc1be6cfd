package daemon

import (
	"errors"
	"net/netip"
	"os"
	"strings"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/zone"
	"github.com/node-dns/node-dns/internal/kube/cluster"
	"github.com/node-dns/node-dns/internal/nodeconfig"
)

// api says how the Kubernetes API is watched. The zero api: it is not.
type api struct {
	original   string // the kubeconfig that is meant
	kubeconfig string // the file that is read: original, or what was handed over of it
	node       string
	features   cluster.Features
}

// newAPI decides whether the API is watched. kubeconfig is the usual one, "" where there is none.
func newAPI(config nodeconfig.Config, kubeconfig, hostname string) api {
	r := config.Resolver
	kubeconfig = config.KubeconfigFile(kubeconfig)
	if kubeconfig == "" {
		return api{}
	}
	node := r.NodeName
	if node == "" {
		node = strings.ToLower(hostname)
	}
	return api{kubeconfig, kubeconfig, node, cluster.Features{
		NodePods: r.Autopath,
		NodeZone: r.SameZoneFirst,
		Settings: r.FromCluster,
		AllPods:  r.PodNames == nodeconfig.PodsVerified,
		PodNames: r.EndpointPodNames,
	}}
}

// usualKubeconfig is the one that is used where the configuration names none; "" while it does not exist.
func (d *Daemon) usualKubeconfig() string {
	if _, err := os.Stat(d.paths.kubeconfig); errors.Is(err, os.ErrNotExist) {
		return ""
	}
	return d.paths.kubeconfig
}

// keptKubeconfig is usualKubeconfig, but for one that has vanished while the API is watched with it: it is waited for as
// one that the configuration names, and names are answered meanwhile.
func (d *Daemon) keptKubeconfig() string {
	if d.serving.Load().api.original == d.paths.kubeconfig {
		return d.paths.kubeconfig
	}
	return d.usualKubeconfig()
}

// goneKubeconfig is the kubeconfig that the cluster was read with, when that does not exist any more; "" otherwise.
func (d *Daemon) goneKubeconfig() string {
	if d.serving.Load() == nil || d.names.known() == nil {
		return ""
	}
	path := d.serving.Load().api.kubeconfig
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		return ""
	}
	return path
}

// credentials are what the API is asked with, of the kubeconfig that the configuration means.
func (d *Daemon) credentials(config nodeconfig.Config, kubeconfig string) nodeconfig.Kubeconfig {
	return nodeconfig.FindKubeconfig(d.config.Looker.Config, config.KubeconfigFile(kubeconfig))
}

// zoneConfig says how cluster names are answered; who else is asked is the daemon's.
func zoneConfig(config nodeconfig.Config, nodeIP netip.Addr) zone.Config {
	r := config.Resolver
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
	if nodeIP.IsValid() {
		z.Nameservers = []netip.Addr{nodeIP}
	}
	return z
}
