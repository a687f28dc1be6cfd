package hostdns

import (
	"slices"

	"github.com/node-dns/node-dns/internal/resolvconf"
)

// ForPods are the files with nameservers that pods can ask, for a kubelet to hand on: the original ones, as the hook writes them, and
// systemd-resolved's own. "": there is no such file, or it names this node.
func (s State) ForPods() (originals, uplinks string) {
	usual := NewPaths("")
	if s.namesOthers(s.NodeResolvConf) {
		originals = usual.NodeResolvConf
	}
	if s.namesOthers(s.ResolvedUplinks) {
		uplinks = usual.ResolvedUplinks
	}
	return originals, uplinks
}

// namesOthers reports whether a resolv.conf names nameservers, none of them this node.
func (s State) namesOthers(f File) bool {
	addrs := resolvconf.Parse(f.Data).Nameservers()
	return len(addrs) > 0 && !slices.ContainsFunc(addrs, s.Net.IsLocal)
}
