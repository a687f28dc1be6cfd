package hostdns

import (
	"bytes"
	"io/fs"
	"net/netip"
	"slices"

	"github.com/node-dns/node-dns/internal/dns/nameserver"
	"github.com/node-dns/node-dns/internal/netstate"
	"github.com/node-dns/node-dns/internal/resolvconf"
	"github.com/node-dns/node-dns/internal/upstream"
)

// notOurs is Hold's text for a restore that has nothing to undo.
const notOurs = "node-dns does not manage it"

// newRestorePlan decides how to restore the original resolv.conf. With ifOurs it leaves a file
// alone that is not ours. Without it a saved original replaces any file. It is pure, like NewPlan.
func newRestorePlan(state State, ifOurs bool) Plan {
	s := &state
	s.parsed = s.known()
	s.Net = assumed(s)
	p := Plan{Paths: s.Paths, Ours: s.pointsHere(), Problems: s.Problems, Capture: append(forgetFacts(s, ifOurs), forgetHandover(s)...), GiveToNM: unshieldSteps(s)}
	p.Capture = append(p.Capture, giveBackForPods(s)...)
	p.found, p.usable = &s.ResolvConf, usableBy(s)
	if here := askedNameserver(s, s.Placement().Nameserver); here.IsValid() {
		p.Stopped = netip.AddrPortFrom(here, nameserver.Port)
	}
	asked := !ifOurs && s.hasOriginal()
	switch {
	case s.ResolvConf.Err != nil:
		p.Hold, p.IfSilent = "it cannot be read", unaskSteps(s)
	case !s.pointsHere() && !s.isEmptied() && !asked:
		p.Hold = notOurs
		if s.isBack() {
			p.Forget = forgetSteps(s)
			if len(p.Forget) > 0 && s.resolvedKeepsOurSearch() { // migrate --undo has restored the link
				p.Forget[0].Tell = systemdResolved
			}
		}
	default:
		if p.IfSilent = giveBackFile(s); asked && len(p.IfSilent) == 0 {
			p.IfSilent = restoreSteps(s)
		}
		p.Forget = forgetSteps(s)
		p.IfSilent = append(p.IfSilent, unaskSteps(s)...)
		switch {
		case len(p.IfSilent) > 0:
		case s.pointsHere():
			p.Hold = "no other nameserver is known"
		default:
			p.Hold = notOurs // and the saved one is unusable
		}
	}
	return p
}

// giveBackForPods writes the captured nameservers to the node resolv.conf if that holds an admin's
// upstreams: it may name this node, which will not answer any more. If pods can query none of the
// captured ones, the file stays.
func giveBackForPods(s *State) []Step {
	captured := selectUpstreams(s).Set
	if len(s.Config.Upstreams) == 0 || !s.Record.Exists || !s.NodeResolvConf.Exists || s.NetErr != nil || len(forPods(captured)) == 0 {
		return nil
	}
	return nodeResolvConfSteps(s, captured)
}

// newLeavePlan is newRestorePlan for a resolv.conf that belongs to another program, even if it
// looks like ours.
func newLeavePlan(s *State) Plan {
	p := newRestorePlan(*s, true)
	p.IfSilent, p.Hold = nil, notOurs
	return p
}

// forgetSteps remove the saved original, so that the next activation saves a new one.
func forgetSteps(s *State) []Step {
	if !s.hasOriginal() {
		return nil
	}
	return []Step{{Path: s.Paths.Original, Action: Remove, Before: s.Original}}
}

// isBack reports whether a run ended early, after it restored the original but before it removed
// the saved copy.
func (s *State) isBack() bool {
	if s.isOurs() || !usable(refuseCopies(s), s.ResolvConf.Data) {
		return false
	}
	return s.ResolvConf.Link == s.Original.Link && bytes.Equal(s.ResolvConf.Data, s.Original.Data) ||
		byNetworkManager(s.ResolvConf.Data) && byNetworkManager(s.Original.Data)
}

// hasOriginal reports whether there is an original to restore. A link counts even if its target is
// missing.
func (s *State) hasOriginal() bool {
	return s.Original.Exists && (s.Original.Err == nil || s.Original.Link != "")
}

// assumed returns the kernel's answer about this node. If there is none, it treats the addresses in
// our resolv.conf as this node's, so that they are never restored as nameservers.
func assumed(s *State) netstate.State {
	if s.NetErr == nil || !s.pointsHere() {
		return s.Net
	}
	var net netstate.State
	for _, addr := range s.named() {
		net.Addrs = append(net.Addrs, netstate.Addr{Addr: addr})
	}
	return net
}

// restoreSteps give resolv.conf the content that it would have without node-dns. In order of
// preference: the link that it was; NetworkManager's current list, if NetworkManager wrote the
// original; the saved original, if it has a usable nameserver; else, if the current file is ours,
// that file without our line and the cluster domain, and with the upstreams. A node must not end up
// without a nameserver because its original had none. If no nameserver is known at all, the file
// stays.
func restoreSteps(s *State) []Step {
	if s.Original.Link != "" {
		if s.ResolvConf.Link == s.Original.Link {
			return nil
		}
		step := Step{Path: s.Paths.ResolvConf, Action: MakeLink, Target: s.Original.Link, Before: s.ResolvConf}
		// NetworkManager writes through the link, and wrote into our file while that replaced it.
		step.Renew = s.NetworkManager != nil && s.NetworkManager.RcManager == "file" && s.isForeignLink()
		if s.resolvedKeepsOurSearch() {
			step.Tell = systemdResolved
		}
		return []Step{step}
	}
	text, mode, ok := originalText(s)
	if !ok || s.ResolvConf.is(text) {
		return nil
	}
	return []Step{{Path: s.Paths.ResolvConf, Action: WriteFile, Data: text, Mode: mode, Before: s.ResolvConf}}
}

// resolvedKeepsOurSearch reports whether the link leads to a file of systemd-resolved's that
// searches more than NetworkManager's list. systemd-resolved treated our file as an admin's
// configuration and kept its search list. A restart clears that.
func (s *State) resolvedKeepsOurSearch() bool {
	if !resolvedStub(s.Original) {
		return false
	}
	theirs, known := networkManagerSearch(s)
	return known && slices.ContainsFunc(resolvconf.Parse(s.Original.Data).Search(), func(domain string) bool {
		return domain != "." && !slices.Contains(theirs, domain)
	})
}

// originalText selects the text for restoreSteps.
func originalText(s *State) (text []byte, mode fs.FileMode, ok bool) {
	upstreams := inResolvConf(selectUpstreams(s).Set).Servers
	saved := s.hasOriginal()
	switch {
	case saved && fromNetworkManagerFile(s):
		return s.NetworkManagerConf.Data, 0o644, true
	case saved && (usable(refuseCopies(s), s.Original.Data) || len(upstreams) == 0):
		return s.Original.Data, readable(s.Original.Mode), true
	case s.isOurs() && len(upstreams) > 0:
		return rebuilt(s, upstreams), 0o644, true
	}
	return nil, 0, false
}

// fromNetworkManagerFile reports whether NetworkManager wrote the original and has a usable list
// now.
func fromNetworkManagerFile(s *State) bool {
	return byNetworkManager(s.Original.Data) && !s.leavesFileAlone() && usable(refuse(s), s.NetworkManagerConf.Data)
}

// networkManagerIsEmpty reports whether NetworkManager runs and knows no nameserver. Its file is
// then out of date.
func (s *State) networkManagerIsEmpty() bool {
	return s.NetworkManager != nil && len(s.NetworkManager.Configs) == 0
}

// leavesFileAlone reports whether NetworkManager runs and would not write resolv.conf even without
// our Snippet.
func (s *State) leavesFileAlone() bool {
	return s.networkManagerIsEmpty() || s.NetworkManager != nil && !s.networkManagerWrites() && !s.isShielded()
}

// usableBy returns usable for this host.
func usableBy(s *State) func(text []byte) bool {
	refused := refuseCopies(s)
	return func(text []byte) bool { return usable(refused, text) }
}

// usable reports whether text names a nameserver that is not node-dns. systemd-resolved's stub
// counts: we do not forward to it, but libc may query it.
func usable(refused func(nameserver.Server) string, text []byte) bool {
	for _, server := range fromResolvConf(upstream.ResolvConf, text).Set.Servers {
		addr := server.Addr.Addr()
		if isResolvedStub(addr) || refused(server) == "" && !addr.IsUnspecified() {
			return true
		}
	}
	return false
}

// rebuilt returns the current resolv.conf without our changes. It is used if no original was saved,
// as on nodes where the script ran before node-dns.
func rebuilt(s *State, upstreams []nameserver.Server) []byte {
	file := unmarked(s, resolvconf.Parse(s.ResolvConf.Data))
	var nameservers []netip.Addr
	for _, server := range upstreams {
		nameservers = append(nameservers, server.Addr.Addr())
	}
	file.SetNameservers(nameservers)
	return file.Bytes()
}
