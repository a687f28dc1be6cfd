package searchlist

import (
	"net/netip"
	"slices"
	"strings"
)

// Limits are what a kubelet bounds a pod's resolv.conf by; it drops the last ones.
type Limits struct {
	Servers, Domains, Chars int // Chars of the search list, with the blanks in between
}

// LimitsOf are a kubelet's. Kubernetes before 1.26, without ExpandedDNSConfig, has the limits that old C libraries had.
func LimitsOf(isOpenShift3 bool) Limits {
	if isOpenShift3 {
		return Limits{maxServers, 6, 256}
	}
	return Limits{maxServers, 32, 2048}
}

// Kubelet is what a kubelet makes a pod's resolv.conf of (pkg/kubelet/network/dns).
type Kubelet struct {
	DNS    []netip.Addr // clusterDNS; none: every pod has the host's file
	Domain string       // clusterDomain, without its final dot; "": none
	Host   Conf         // what its resolvConf says
	NoFile bool         // its resolvConf is "": pods have nothing of the node's
	Limits Limits
}

// The values of a pod's dnsPolicy.
const (
	ClusterFirst            = "ClusterFirst"
	ClusterFirstWithHostNet = "ClusterFirstWithHostNet"
	Default                 = "Default" // the kubelet's own resolvConf, whatever the name says
	None                    = "None"
)

// Pod is what a pod says of its resolv.conf.
type Pod struct {
	Namespace   string
	Policy      string // "": ClusterFirst
	HostNetwork bool
	Own         Conf // dnsConfig
}

// IsClusterFirst reports whether the cluster's nameserver and domains come first, for a pod on its own network.
func (p Pod) IsClusterFirst() bool {
	return p.Policy == ClusterFirstWithHostNet || !p.HostNetwork && (p.Policy == "" || p.Policy == ClusterFirst)
}

// Conf is the pod's resolv.conf before the limits.
func (k Kubelet) Conf(p Pod) Conf {
	var c Conf
	switch {
	case p.Policy == None:
	case p.IsClusterFirst() && len(k.DNS) > 0:
		c = Conf{Nameservers: k.DNS, Search: ClusterSearch(p.Namespace, k.Domain, k.Host.Search), Options: []string{"ndots:5"}}
	case k.NoFile: // which is to say that they ask nobody
		c = Conf{Nameservers: []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1})}, Search: []string{"."}}
	default:
		c = Conf{Nameservers: k.Host.Nameservers, Search: k.Host.Search, Options: k.Host.Options}
	}
	if len(p.Own.Nameservers) > 0 { // else what is there twice stays
		c.Nameservers = union(c.Nameservers, p.Own.Nameservers)
	}
	if len(p.Own.Search) > 0 {
		c.Search = union(c.Search, p.Own.Search)
	}
	c.Options = merged(c.Options, p.Own.Options)
	return c
}

// ClusterSearch is the search list of a namespace's pods.
func ClusterSearch(namespace, domain string, host []string) []string {
	if domain == "" {
		return union(nil, host)
	}
	return union([]string{namespace + ".svc." + domain, "svc." + domain, domain}, host)
}

// union is a list without what is there already.
func union[T comparable](lists ...[]T) (all []T) {
	for _, element := range slices.Concat(lists...) {
		if !slices.Contains(all, element) {
			all = append(all, element)
		}
	}
	return all
}

// merged are the options, those of own in place of others of their names.
func merged(options, own []string) []string {
	name := func(option string) string { word, _, _ := strings.Cut(option, ":"); return word }
	all := slices.Clone(options)
	for _, option := range own {
		all = slices.DeleteFunc(all, func(have string) bool { return name(have) == name(option) })
		all = append(all, option)
	}
	return all
}

// Cut is the part of c within the limits.
func (l Limits) Cut(c Conf) Conf {
	c.Nameservers = c.Nameservers[:min(len(c.Nameservers), l.Servers)]
	chars := -1 // no blank before the first
	for i, domain := range c.Search {
		if chars += len(domain) + 1; i == l.Domains || chars > l.Chars {
			c.Search = c.Search[:i]
			break
		}
	}
	return c
}
