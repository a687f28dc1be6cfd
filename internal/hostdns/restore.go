package hostdns

import (
	"net/netip"
	"strings"

	"github.com/node-dns/node-dns/internal/resolvconf"
	"github.com/node-dns/node-dns/internal/upstream"
)

// NewRestorePlan decides how the original resolv.conf comes back. With ifOurs a file that is not ours is left alone;
// without it a saved original displaces whatever stands there. Pure, as NewPlan is.
func NewRestorePlan(s State, ifOurs bool) Plan {
	p := Plan{Paths: s.Paths, Change: None, Problems: s.Problems}
	switch {
	case s.ResolvConf.Err != nil:
		p.Hold = "it cannot be read"
	case !s.isOurs() && (ifOurs || !s.Original.Exists):
		p.Hold = "it is not ours"
	default:
		p.Silent = restoreSteps(s)
	}
	return p
}

// restoreSteps put the original nameservers back into resolv.conf, and take the saved original away: the next
// activation saves afresh.
func restoreSteps(s State) []Step {
	var steps []Step
	if step, ok := originalStep(s); ok {
		steps = append(steps, step)
	}
	if s.Original.Exists {
		steps = append(steps, Step{Path: s.Paths.Original, Action: Remove, Before: s.Original})
	}
	return steps
}

// originalStep gives resolv.conf what it would hold without us. In order: the link that it was; what NetworkManager
// would write today, where it wrote the original; the saved original, if any nameserver in it can be used; else the
// file that stands there, with our line and the cluster domain out and the captured upstreams in. A node must not end
// without a nameserver because its original had none.
func originalStep(s State) (Step, bool) {
	if s.Original.Link != "" {
		if s.ResolvConf.Link == s.Original.Link {
			return Step{}, false
		}
		return Step{Path: s.Paths.ResolvConf, Action: MakeLink, Target: s.Original.Link, Before: s.ResolvConf}, true
	}
	text, mode := rebuilt(s), s.ResolvConf.Mode
	switch {
	case s.Original.Exists && fromNetworkManagerFile(s):
		text = s.NetworkManagerConf.Data
	case s.Original.Exists && (usable(s, s.Original.Data) || len(lastGood(s).Servers) == 0):
		text, mode = s.Original.Data, s.Original.Mode
	}
	if s.ResolvConf.is(text) {
		return Step{}, false
	}
	if mode == 0 {
		mode = 0o644
	}
	return Step{Path: s.Paths.ResolvConf, Action: WriteFile, Data: text, Mode: mode, Before: s.ResolvConf}, true
}

// fromNetworkManagerFile reports whether NetworkManager wrote the original, and has something to write today.
func fromNetworkManagerFile(s State) bool {
	owner := resolvconf.Parse(s.Original.Data).Owner()
	return strings.Contains(owner, "NetworkManager") && usable(s, s.NetworkManagerConf.Data)
}

// usable reports whether text names a nameserver that is not this node.
func usable(s State, text []byte) bool {
	refused := refuse(s)
	for _, server := range fromResolvConf(upstream.ResolvConf, text).Set.Servers {
		if refused(server) == "" && !server.Addr.Addr().IsUnspecified() {
			return true
		}
	}
	return false
}

// rebuilt is the resolv.conf that stands there, without what we put in. It serves where no original was saved: on nodes
// that the script had before us.
func rebuilt(s State) []byte {
	file := resolvconf.Parse(s.ResolvConf.Data)
	file.RemoveLine(Watermark)
	file.RemoveLine(LegacyWatermark)
	var search []string
	for _, domain := range file.Search() {
		if !strings.EqualFold(domain, s.Config.ClusterDomain.Relative()) {
			search = append(search, domain)
		}
	}
	file.SetSearch(search)
	var nameservers []netip.Addr
	for _, server := range lastGood(s).Servers {
		if server.Plain() && server.Addr.Port() == 53 {
			nameservers = append(nameservers, server.Addr.Addr())
		}
	}
	if len(nameservers) > 0 {
		file.SetNameservers(nameservers)
	}
	return file.Bytes()
}
