package resolvconf

import (
	"net/netip"
	"slices"
	"strings"
)

// Limits are a kubelet's limits for a pod's resolv.conf. It drops what exceeds them at the end.
type Limits struct {
	Servers, Domains, Chars int // Chars of the search list, including the blanks in between
}

// LimitsOf returns a kubelet's limits. Kubernetes before 1.26, without ExpandedDNSConfig, has the
// limits of old C libraries.
func LimitsOf(isOpenShift3 bool) Limits {
	if isOpenShift3 {
		return Limits{maxServers, 6, 256}
	}
	return Limits{maxServers, 32, 2048}
}

// Kubelet is the input from which a kubelet builds a pod's resolv.conf (pkg/kubelet/network/dns).
type Kubelet struct {
	DNS    []netip.Addr // clusterDNS; if empty, every pod gets the host's file
	Domain string       // clusterDomain without its final dot, or ""
	Host   Content      // content of its resolvConf
	NoFile bool         // its resolvConf is "": pods get nothing from the node's file
	Limits Limits
}

// The values of a pod's dnsPolicy.
const (
	PolicyClusterFirst            = "ClusterFirst"
	PolicyClusterFirstWithHostNet = "ClusterFirstWithHostNet"
	PolicyDefault                 = "Default" // the kubelet's own resolvConf; despite its name not the default
	PolicyNone                    = "None"
)

// Pod is the DNS part of a pod's spec.
type Pod struct {
	Namespace   string
	Policy      string // "" means ClusterFirst
	HostNetwork bool
	Own         Content // dnsConfig
}

// IsClusterFirst reports whether the pod uses the cluster's nameserver and domains first. Without
// PolicyClusterFirstWithHostNet this needs a pod with its own network.
func (p Pod) IsClusterFirst() bool {
	return p.Policy == PolicyClusterFirstWithHostNet || !p.HostNetwork && (p.Policy == "" || p.Policy == PolicyClusterFirst)
}

// Conf returns the pod's resolv.conf before the limits.
func (k Kubelet) Conf(p Pod) Content {
	var c Content
	switch {
	case p.Policy == PolicyNone:
	case p.IsClusterFirst() && len(k.DNS) > 0:
		c = Content{Nameservers: k.DNS, Search: ClusterSearch(p.Namespace, k.Domain, k.Host.Search), Options: []string{"ndots:5"}}
	case k.NoFile: // the pods then have no nameserver
		c = Content{Nameservers: []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1})}, Search: []string{"."}}
	default:
		c = Content{Nameservers: k.Host.Nameservers, Search: k.Host.Search, Options: k.Host.Options}
	}
	if len(p.Own.Nameservers) > 0 { // otherwise duplicates stay
		c.Nameservers = union(c.Nameservers, p.Own.Nameservers)
	}
	if len(p.Own.Search) > 0 {
		c.Search = union(c.Search, p.Own.Search)
	}
	c.Options = merged(c.Options, p.Own.Options)
	return c
}

// ClusterSearch returns the search list of a namespace's pods.
func ClusterSearch(namespace, domain string, host []string) []string {
	if domain == "" {
		return union(nil, host)
	}
	return union([]string{namespace + ".svc." + domain, "svc." + domain, domain}, host)
}

// union concatenates lists without duplicates.
func union[T comparable](lists ...[]T) (all []T) {
	for _, element := range slices.Concat(lists...) {
		if !slices.Contains(all, element) {
			all = append(all, element)
		}
	}
	return all
}

// merged returns the options, with those of own replacing others of the same name.
func merged(options, own []string) []string {
	name := func(option string) string { word, _, _ := strings.Cut(option, ":"); return word }
	all := slices.Clone(options)
	for _, option := range own {
		all = slices.DeleteFunc(all, func(have string) bool { return name(have) == name(option) })
		all = append(all, option)
	}
	return all
}

// Cut returns the part of c within the limits.
func (l Limits) Cut(c Content) Content {
	c.Nameservers = c.Nameservers[:min(len(c.Nameservers), l.Servers)]
	chars := -1 // no blank before the first name
	for i, domain := range c.Search {
		if chars += len(domain) + 1; i == l.Domains || chars > l.Chars {
			c.Search = c.Search[:i]
			break
		}
	}
	return c
}
