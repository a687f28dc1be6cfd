package daemon

import (
	"slices"
	"sync"

	"github.com/node-dns/node-dns/internal/dnsname"
	"github.com/node-dns/node-dns/internal/nodeconfig"
)

// searchLists are the search lists that the kubelet gives to pods with dnsPolicy ClusterFirst: the cluster's domains from
// the pod's namespace upward, then those of the kubelet's resolv.conf. It is safe for concurrent use.
type searchLists struct {
	domain dnsname.Name
	host   []dnsname.Name
	limits searchLimits
	lists  sync.Map // of []dnsname.Name, by namespace: as many as have had pods on this node
}

// searchLimits are what a kubelet bounds a pod's list by: domains, and characters with the blanks between them. It drops
// the last ones. Kubernetes before 1.26, without ExpandedDNSConfig, has the limits that old C libraries had.
type searchLimits struct{ domains, chars int }

func newSearchLists(config nodeconfig.Config, host []dnsname.Name) *searchLists {
	limits := searchLimits{32, 2048}
	if config.IsOpenShift {
		limits = searchLimits{6, 256}
	}
	return &searchLists{domain: config.ClusterDomain, host: host, limits: limits}
}

// of is the list of a namespace's pods; "" is no namespace.
func (l *searchLists) of(namespace string) []dnsname.Name {
	if namespace == "" {
		return nil
	}
	if list, ok := l.lists.Load(namespace); ok {
		return list.([]dnsname.Name)
	}
	list := l.made(namespace)
	l.lists.Store(namespace, list)
	return list
}

func (l *searchLists) made(namespace string) []dnsname.Name {
	var list []dnsname.Name
	for _, prefix := range []string{namespace + ".svc.", "svc.", ""} {
		name, err := dnsname.Parse(prefix + l.domain.String())
		if err != nil {
			return nil // too long for a name: no pod can have it
		}
		list = append(list, name)
	}
	for _, name := range l.host {
		if !slices.Contains(list, name) { // the kubelet leaves out what is there twice
			list = append(list, name)
		}
	}
	return l.limits.cut(list)
}

func (l searchLimits) cut(list []dnsname.Name) []dnsname.Name {
	chars := -1 // no blank before the first
	for i, name := range list {
		// A name's text ends in a dot that resolv.conf's has not: with it a domain is as long as with a blank.
		if chars += len(name.String()); i == l.domains || chars > l.chars {
			return list[:i]
		}
	}
	return list
}
