package daemon

import (
	"sync"

	"github.com/node-dns/node-dns/internal/admin/searchlist"
	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/nodeconfig"
)

// searchLists are the search lists that the kubelet gives to pods with dnsPolicy ClusterFirst: the cluster's domains from
// the pod's namespace upward, then those of the kubelet's resolv.conf. It is safe for concurrent use.
type searchLists struct {
	domain dnsname.Name
	host   []dnsname.Name
	limits searchlist.Limits
	lists  sync.Map // of []dnsname.Name, by namespace: as many as have had pods on this node
}

func newSearchLists(config nodeconfig.Config, host []dnsname.Name) *searchLists {
	return &searchLists{domain: config.ClusterDomain, host: host, limits: searchlist.LimitsOf(config.IsOpenShift)}
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
	host := make([]string, len(l.host))
	for i, name := range l.host {
		host[i] = name.Relative()
	}
	conf := l.limits.Cut(searchlist.Conf{Search: searchlist.ClusterSearch(namespace, l.domain.Relative(), host)})
	var list []dnsname.Name
	for _, domain := range conf.Search {
		name, err := dnsname.Parse(domain)
		if err != nil {
			return nil // too long for a name: no pod can have it
		}
		list = append(list, name)
	}
	return list
}
