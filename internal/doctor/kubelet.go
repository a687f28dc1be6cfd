package doctor

import (
	"net/netip"
	"slices"

	"github.com/node-dns/node-dns/internal/hostdns"
	"github.com/node-dns/node-dns/internal/resolvconf"
)

// nodeResolvConf is what the hook writes for the kubelet.
const nodeResolvConf = "/etc/origin/node/resolv.conf"

// checkKubelet judges whom the kubelet hands on to pods: nameservers of the site's, and not this node again, which would have
// the cluster's own DNS pods forward in a circle, nor anything on loopback, which is the pod's own there.
func checkKubelet(s Snapshot) []Finding {
	k := s.Kubelet
	if !k.Configured {
		return fine("no kubelet is configured here")
	}
	where := "resolvConf=" + k.Path
	if k.Source != "" {
		where += " (" + k.Source + ")"
	} else {
		where += " (its default)"
	}
	fix := "set resolvConf to " + nodeResolvConf + ", which has the original nameservers, and restart the kubelet; see node-dns explain"
	names := resolvconf.Parse(k.File.Data).Nameservers()
	ours := s.addresses()
	switch {
	case k.Path == "": // kubelet's word for "nothing at all"
		return nil
	case !k.File.Exists:
		return []Finding{fail("kubelet's "+where+" does not exist: no pod can be started", "origin-dns-dispatcher apply writes "+nodeResolvConf)}
	case k.File.Err != nil:
		return []Finding{warn("kubelet's "+where+" cannot be read: "+k.File.Err.Error(), "run this as root")}
	case hostdns.IsOurs(k.File.Data), slices.ContainsFunc(names, func(a netip.Addr) bool { return slices.Contains(ours, a) }):
		return []Finding{fail("kubelet's "+where+" points pods, the cluster's DNS pods too, back at this node ("+join(names)+")", fix)}
	case slices.ContainsFunc(names, netip.Addr.IsLoopback):
		return []Finding{fail("kubelet's "+where+" names "+join(names)+": loopback is the pod's own there", fix)}
	case len(names) == 0:
		return []Finding{warn("kubelet's "+where+" names no nameserver: pods that take the node's have none", fix)}
	}
	return fine("kubelet's %s: %s", where, join(names))
}

// addresses are this node's at which node-dns answers.
func (s Snapshot) addresses() []netip.Addr {
	var all []netip.Addr
	for _, at := range s.wanted() {
		all = append(all, at.Addr())
	}
	return all
}
