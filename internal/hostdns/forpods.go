package hostdns

import (
	"slices"

	"github.com/node-dns/node-dns/internal/resolvconf"
)

// ForPods are the files with nameservers that pods can ask, for a kubelet to hand on: the original ones, as the hook writes them, and
// systemd-resolved's own. "": there is no such file, or it names this node where others could be asked.
func (s State) ForPods() (originals, uplinks string) {
	usual := NewPaths("")
	if s.NamesNode() || s.namesOthers(s.NodeResolvConf) {
		originals = usual.NodeResolvConf
	}
	if s.namesOthers(s.ResolvedUplinks) {
		uplinks = usual.ResolvedUplinks
	}
	return originals, uplinks
}

// WritesForPods reports whether the plan writes the node resolv.conf. Without an upstream it does not.
func (p Plan) WritesForPods() bool {
	return slices.ContainsFunc(p.Capture, func(step Step) bool { return step.Path == p.Paths.NodeResolvConf })
}

// namesOthers reports whether a resolv.conf names nameservers, none of them this node.
func (s State) namesOthers(f File) bool {
	addrs := resolvconf.Parse(f.Data).Nameservers()
	return len(addrs) > 0 && !slices.ContainsFunc(addrs, s.Net.IsLocal)
}
