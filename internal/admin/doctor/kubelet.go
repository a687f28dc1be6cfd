package doctor

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/node-dns/node-dns/internal/admin/searchlist"
	"github.com/node-dns/node-dns/internal/hostdns"
	"github.com/node-dns/node-dns/internal/resolvconf"
)

// checkKubelet judges whom the kubelet hands on to pods, as node-dns explain does: nameservers of the site's, and not this node again,
// which would have the cluster's own DNS pods forward in a circle.
func checkKubelet(s Snapshot) []Finding {
	k := s.Kubelet
	var found []Finding
	for _, fault := range k.Faults {
		found = append(found, warn("the kubelet that runs was told of a file that is at fault: "+fault, "mend it: the kubelet reads it when it starts"))
	}
	switch {
	case !k.Configured:
		return fine("no kubelet is configured here")
	case k.Path == "": // kubelet's word for "nothing at all"
		return found
	}
	source := cmp.Or(k.Source, "its default")
	handed := searchlist.Of(resolvconf.Parse(k.File.Data))
	for _, fault := range s.kubeletChecks().Host(searchlist.Kubelet{DNS: k.DNS, Host: handed}) {
		level := fail
		if fault.Maybe {
			level = warn
		}
		found = append(found, level(fault.What, fault.Fix, "by "+source))
	}
	return orFine(found, "kubelet's resolvConf=%s (%s): %s", k.Path, source, join(handed.Nameservers))
}

// kubeletChecks are what the kubelet's resolvConf is looked at with.
func (s Snapshot) kubeletChecks() searchlist.Checks {
	k, state, ours := s.Kubelet, s.Host.State, s.addresses()
	c := searchlist.Checks{
		HostFile: k.Path, Missing: !k.File.Exists && k.File.Err == nil, Hooks: hostdns.NewPaths("").NodeResolvConf, Writes: s.Host.Plan.WritesForPods(),
		NamesNode: state.NamesNode(),
		Setting:   searchlist.ResolvConfSetting(state.Config.IsOpenShift, k.SetBy),
		IsNode: func(addr netip.Addr) bool { // of a file of ours it is, whatever address the node has by now
			return state.Net.IsLocal(addr) || slices.Contains(ours, addr) || hostdns.IsOurs(k.File.Data)
		},
	}
	if k.File.Err != nil {
		c.Unread = k.File.Err.Error()
	}
	c.Originals, c.Uplinks = state.ForPods()
	return c
}

// addresses are this node's at which node-dns answers.
func (s Snapshot) addresses() []netip.Addr {
	var all []netip.Addr
	for _, at := range s.wanted() {
		all = append(all, at.Addr())
	}
	return all
}
