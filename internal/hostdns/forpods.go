package hostdns

import (
	"slices"

	"github.com/node-dns/node-dns/internal/resolvconf"
)

// ForPods returns the files that a kubelet can pass to pods: the original nameservers, which the
// hook writes, and systemd-resolved's own file. A path is "" if the file does not exist, or if it
// names this node although pods could query its upstreams directly.
func (s *State) ForPods() (originals, uplinks string) {
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

// namesOthers reports whether a resolv.conf names nameservers, and none of them is this node.
func (s *State) namesOthers(f File) bool {
	addrs := resolvconf.Parse(f.Data).Nameservers()
	return len(addrs) > 0 && !slices.ContainsFunc(addrs, s.Net.IsLocal)
}
