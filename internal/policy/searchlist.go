package policy

import (
	"sync"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/nodeconfig"
	"github.com/node-dns/node-dns/internal/resolvconf"
)

// SearchLists are the search lists that the kubelet gives to pods with dnsPolicy ClusterFirst: the
// cluster's domains from the pod's namespace upward, then those of the kubelet's resolv.conf. They
// are safe for concurrent use.
type SearchLists struct {
	domain dnsname.Name
	Host   []dnsname.Name
	limits resolvconf.Limits
	lists  sync.Map // map of namespaces to []dnsname.Name, for namespaces with pods on this node
}

// newSearchLists returns the lists for a kubelet with the search list host in its resolv.conf.
func newSearchLists(config nodeconfig.Config, host []dnsname.Name) *SearchLists {
	return &SearchLists{domain: config.ClusterDomain, Host: host, limits: resolvconf.LimitsOf(config.IsOpenShift)}
}

// Of returns the search list of a namespace's pods; nil for "".
func (l *SearchLists) Of(namespace string) []dnsname.Name {
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

func (l *SearchLists) made(namespace string) []dnsname.Name {
	host := make([]string, len(l.Host))
	for i, name := range l.Host {
		host[i] = name.Relative()
	}
	conf := l.limits.Cut(resolvconf.Content{Search: resolvconf.ClusterSearch(namespace, l.domain.Relative(), host)})
	var list []dnsname.Name
	for _, domain := range conf.Search {
		name, err := dnsname.Parse(domain)
		if err != nil {
			return nil // too long for a name, so no pod can have it
		}
		list = append(list, name)
	}
	return list
}
