package policy

import (
	"cmp"
	"slices"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/hostdns"
	"github.com/node-dns/node-dns/internal/nodeconfig"
)

// New decides what to serve. It is pure.
func New(in Inputs) *Policy {
	place := hostdns.Place(in.Config, in.Net, in.Record, in.DNSService.Addrs...)
	p := &Policy{
		Config:   in.Config,
		Dnsmasq:  in.Dnsmasq,
		Settings: newSettings(in.Config, in.Dnsmasq),
		Net:      in.Net,
		Hostname: NameOf(in.Hostname),
		Metrics:  metricsOf(in.Config, in.Root),
		Search:   newSearchLists(in.Config, in.HostSearch),
		Problems: slices.Concat(in.Problems, place.Problems),
		looping:  in.Looping,
	}
	p.addListeners(in, place)
	p.addAPI(in)
	p.pods = choosePods(in.DNSService.Pods, p.API.Node)
	p.addIntercept(in, place)
	if in.Config.ClusterDomain.IsZero() {
		return p.unknown()
	}
	p.ClusterDNS = place.ClusterDNS
	p.Apexes = append([]dnsname.Name{in.Config.ClusterDomain}, in.Config.ReverseZones(place.ClusterDNS)...)
	p.ClusterSource = clusterSource(in.Config)
	p.addFiles(in)
	p.addOwn(in)           // needs the apexes
	claims := p.claims(in) // needs the routes of the cluster's own DNS
	p.leaveUpstreams(in.DNSService.Addrs, claims)
	p.settle(claims)
	p.addLocal(in) // needs the winning routes
	if !p.isRouted(dnsname.Root()) {
		p.Problems = append(p.Problems, "no upstream nameserver is known: only cluster names are answered")
	}
	return p
}

// addAPI decides how the Kubernetes API is watched, and reports the source of the credentials.
func (p *Policy) addAPI(in Inputs) {
	p.API, p.Credentials = NewAPI(in.Config, in.Kubeconfig, cmp.Or(in.NodeName, in.Hostname)), in.Credentials
	if p.API == (API{}) || p.Credentials.Original != p.API.Original {
		return
	}
	p.API.Kubeconfig = p.Credentials.Use
	if p.Credentials.Note != "" {
		p.Notes = append(p.Notes, p.Credentials.Note)
	}
	if p.Credentials.Problem != "" {
		p.Problems = append(p.Problems, p.Credentials.Problem)
	}
}

// unknown returns the Policy for an unknown cluster domain: nothing is served. Any name might
// belong to the cluster, and the site's nameservers must not see such names. While nothing is
// served, the hook does not point /etc/resolv.conf here.
func (p *Policy) unknown() *Policy {
	p.Listen = nil
	p.Problems = append(p.Problems, "not listening while the cluster domain is unknown: its names would reach the upstream nameservers")
	return p
}

func clusterSource(config nodeconfig.Config) string {
	return config.Where("clusterDomain", "kubeletArguments.cluster-domain", "dnsDomain", "clusterDNS",
		"kubeletArguments.cluster-dns", "dnsIP")
}
