package hostdns

import (
	"net/netip"

	"github.com/node-dns/node-dns/internal/resolvconf"
)

// pointHere are the steps that make resolv.conf name this node alone, the displaced file saved before.
func pointHere(s State, nameserver netip.Addr) []Step {
	text := localResolvConf(s, nameserver)
	step, ok := writeStep(s.Paths.ResolvConf, s.ResolvConf, text)
	if !ok {
		return nil
	}
	if save, ok := saveStep(s); ok {
		return []Step{save, step}
	}
	return []Step{step}
}

// keepHere names this node alone in a resolv.conf that is ours, and changes nothing else in it. Without the kernel's
// addresses there is nothing to be kept right.
func keepHere(s State, nameserver netip.Addr) []Step {
	if !s.isOurs() || s.NetErr != nil || !nameserver.IsValid() {
		return nil
	}
	file := resolvconf.Parse(s.ResolvConf.Data)
	file.SetNameservers([]netip.Addr{nameserver})
	if step, ok := writeStep(s.Paths.ResolvConf, s.ResolvConf, file.Bytes()); ok {
		return []Step{step}
	}
	return nil
}

// localResolvConf is the resolv.conf of a node whose local nameserver answers: what stood there is kept, line by line
// (law 6), but the nameservers and the search list.
func localResolvConf(s State, nameserver netip.Addr) []byte {
	file := resolvconf.Parse(s.ResolvConf.Data)
	if !s.isOurs() {
		file.PrependLine(Watermark)
	}
	file.SetSearch(searchList(s))
	file.SetNameservers([]netip.Addr{nameserver})
	return file.Bytes()
}

// saveStep saves the resolv.conf that is about to be displaced: never one that is ours, and once, but that who wrote the saved
// one has written it anew. A link is saved as a
// link, so that it can be put back as one. A file that not everyone could read is saved as one that everyone can: the
// daemon looks at it, and libc had no use for it (the script's bug B13).
func saveStep(s State) (Step, bool) {
	if !s.ResolvConf.Exists || s.isOurs() || s.Original.Exists && !s.isNewer() {
		return Step{}, false
	}
	if s.ResolvConf.Link != "" {
		return Step{Path: s.Paths.Original, Action: MakeLink, Target: s.ResolvConf.Link}, true
	}
	return Step{Path: s.Paths.Original, Action: WriteFile, Data: s.ResolvConf.Data, Mode: readable(s.ResolvConf.Mode)}, true
}

// isNewer reports whether who wrote the saved original has written a newer one over ours: resolvconf, a DHCP client, or
// cloud-init, by its comment. Of NetworkManager the present list is known, and a tool that is no owner says its own name.
func (s State) isNewer() bool {
	by := writer(s.ResolvConf.Data)
	return by != "" && !byNetworkManager(s.ResolvConf.Data) && s.ResolvConf.Link == "" && s.Original.Link == "" && by == writer(s.Original.Data) &&
		usable(refuseCopies(s), s.ResolvConf.Data)
}
