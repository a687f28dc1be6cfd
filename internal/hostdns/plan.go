package hostdns

import (
	"io/fs"
	"net/netip"
	"slices"
	"strings"

	"github.com/node-dns/node-dns/internal/upstream"
)

// Change says how the captured upstreams differ from what was known before the run.
type Change string

const (
	Same    Change = "same"    // the same servers in the same order
	Order   Change = "order"   // the same servers in another order
	Changed Change = "changed" // other servers
	None    Change = "none"    // no upstream is known: what was captured stays
)

// Action is what a Step does to its path.
type Action string

const (
	WriteFile Action = "write"
	MakeLink  Action = "link"
	Remove    Action = "remove"
)

// Step is one change to one path.
type Step struct {
	Path   string
	Action Action
	Data   []byte      // WriteFile: the whole new content
	Mode   fs.FileMode // WriteFile: permission bits
	Target string      // MakeLink: where the link points
	Before File        // what stands there now, for the diff and for the undo
}

// Plan is what a State asks for. Applying it twice does nothing the second time: a Step is in it only when the path
// does not yet hold what the Step would put there.
type Plan struct {
	Paths      Paths
	Selection  upstream.Selection
	Change     Change
	Nameserver netip.AddrPort // the local nameserver that resolv.conf is to name; zero: none, and none is asked

	Capture  []Step // the upstream files: always done, and first
	Answers  []Step // done only when Nameserver answers: point resolv.conf at this node
	Silent   []Step // done only when it does not: back to the original nameservers (law 4)
	Hold     string // why resolv.conf is left alone whatever happens; "" when it is not
	Problems []string
	Warnings []string
}

// NewPlan decides what the host's files must say. It is pure: the same State gives the same Plan, and nothing is read
// or written.
func NewPlan(s State) Plan {
	p := Plan{Paths: s.Paths, Selection: selectUpstreams(s), Problems: slices.Clone(s.Problems)}
	known := lastGood(s)
	p.Change, p.Warnings = changeOf(known.Set, p.Selection.Set), known.Warnings
	// Without the kernel's addresses nobody can tell which nameserver is this node: what was captured before stays.
	if !p.Selection.Set.IsEmpty() && s.NetErr == nil {
		p.Capture = captureSteps(s, p.Selection)
	}
	place := s.Placement()
	p.Problems = append(p.Problems, place.Problems...)
	if place.Nameserver.IsValid() {
		p.Nameserver = netip.AddrPortFrom(place.Nameserver, 53)
	}
	if p.Hold = hold(s, p); p.Hold != "" {
		return p
	}
	p.Answers = pointHere(s, place.Nameserver)
	if s.isOurs() {
		p.Silent = restoreSteps(s)
	}
	p.Warnings = append(p.Warnings, warnings(s, p)...)
	return p
}

// hold says why resolv.conf must not be touched, or "".
func hold(s State, p Plan) string {
	switch {
	case s.ResolvConf.Err != nil:
		return "it cannot be read"
	case s.ConfigErr != nil:
		return "the configuration has faults" // the cluster domain may be one of them
	case !p.Nameserver.IsValid():
		return "this node has no address to listen on (no default route, no nodeIP)"
	case len(p.Selection.Set.Servers)+len(s.Config.Upstreams)+len(s.Config.DNSNameservers) == 0:
		return "no upstream nameserver is known" // pointing here would end all names but the cluster's
	}
	return ""
}

func changeOf(before, after upstream.Set) Change {
	switch {
	case after.IsEmpty():
		return None
	case before.Equal(after):
		return Same
	case before.SameMembers(after):
		return Order
	}
	return Changed
}

// Steps are the changes that the host needs when its local nameserver answers (or does not).
func (p Plan) Steps(answers bool) []Step {
	steps := append([]Step(nil), p.Capture...)
	if answers && p.Nameserver.IsValid() {
		return append(steps, p.Answers...)
	}
	return append(steps, p.Silent...)
}

// warnings are what an admin should know of a plan that goes ahead all the same.
func warnings(s State, p Plan) []string {
	var w []string
	if names := droppedNameservers(s, p); len(names) > 0 {
		w = append(w, "/etc/resolv.conf named "+strings.Join(names, " ")+", which "+string(p.Selection.Origin)+
			" does not: to keep it, set upstreams in /etc/node-dns/node-dns.yaml")
	}
	return append(w, searchWarnings(s)...)
}

// droppedNameservers are the nameservers of an admin's resolv.conf that are not captured. One that NetworkManager wrote
// is no admin's word, only older than what it says now.
func droppedNameservers(s State, p Plan) []string {
	if s.isOurs() || resolvedStub(s.ResolvConf) || byNetworkManager(s.ResolvConf.Data) {
		return nil
	}
	var names []string
	refused := refuse(s)
	for _, server := range fromResolvConf(upstream.ResolvConf, s.ResolvConf.Data).Set.Servers {
		known := refused(server) != "" || server.Addr.Addr().IsUnspecified()
		for _, captured := range p.Selection.Set.Servers {
			known = known || captured.Addr == server.Addr
		}
		if !known {
			names = append(names, server.String())
		}
	}
	return names
}
