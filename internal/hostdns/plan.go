package hostdns

import (
	"io/fs"
	"net/netip"
	"slices"
	"strings"

	"github.com/node-dns/node-dns/internal/dns/nameserver"
	"github.com/node-dns/node-dns/internal/nodeconfig"
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

// program is one that reads a file of ours.
type program string

const (
	nobody          program = ""
	networkManager  program = "NetworkManager"
	systemdResolved program = "systemd-resolved"
)

// Step is one change to one path.
type Step struct {
	Path   string
	Action Action
	Data   []byte      // WriteFile: the whole new content
	Mode   fs.FileMode // WriteFile: permission bits
	Target string      // MakeLink: where the link points
	Owner  int         // WriteFile: the user that owns it; 0: the one that writes it
	Secret bool        // WriteFile, Remove: what it holds is not shown
	Tell   program     // is told to read its configuration again, whether something changed or not
	Renew  bool        // NetworkManager is told to write resolv.conf again, through the link that this step makes
	Before File        // what stands there now, for the diff and for the undo
}

// Plan is what a State asks for. Applying it twice does nothing the second time: a Step is in it only when the path
// does not yet hold what the Step would put there.
type Plan struct {
	Paths      Paths
	Selection  upstream.Selection
	Change     Change                // "": a restore, which captures nothing
	Nameserver netip.AddrPort        // the local nameserver that resolv.conf is to name, or names; zero: none
	Stopped    netip.AddrPort        // a restore: where node-dns answers that was not stopped; zero: nobody is asked
	Ours       bool                  // resolv.conf is ours already, or systemd-resolved asks this node
	Via        nodeconfig.ResolvConf // file, resolved or none: what is to name this node. "": a restore

	Capture     []Step // what the daemon is handed: always done, and first
	IfAnswering []Step // done only when Nameserver answers: point resolv.conf, or systemd-resolved, at this node
	IfSilent    []Step // done only when it does not, or when there is none: back to the original nameservers (law 4)

	TakeFromNM  []Step // done when resolv.conf names this node, and before it does: NetworkManager lets go of it
	GiveToNM    []Step // done when it does not, and after: NetworkManager has it again
	Forget      []Step // done last, when what resolv.conf was given back is seen to have stayed: the saved original goes
	Purge       []Step // done after a restore, when node-dns does not run: what it has made goes
	OtherWriter string // who writes resolv.conf besides us, as somebody has decided; "": nobody

	OverwrittenBy string // who wrote over our resolv.conf, as the file says, where that is to be put right; "": nobody
	RewriteLoop   bool   // that has gone on for too long: Hold says so
	past          past
	found         *File                  // resolv.conf as it was
	usable        func(text []byte) bool // reports whether a resolv.conf names a nameserver other than this node

	// Hold is why resolv.conf does not get all that it should say; "": it does. One that is not ours is left alone then.
	// In one that is ours only the nameserver is kept right, and it goes back to the original as ever.
	Hold string

	Problems  []string
	Warnings  []string
	Lacking   string   // that the network offers no usable upstream, why and since when, where last-good serves for that; "": it does
	Conflicts []string // of an admin's static servers with others, which is settled
}

// NewPlan decides what the host's files must say. It is pure: the same State gives the same Plan, and nothing is read
// or written.
func NewPlan(s State) Plan {
	s.Net = assumed(s)
	found := s
	edit, edited := s.edited()
	if edited {
		s.ResolvConf = edit // somebody else's, but for our line in it
	}
	p := Plan{Paths: s.Paths, Selection: selectUpstreams(s), Ours: s.pointsHere(), Via: s.via(), Problems: slices.Clone(s.Problems), past: s.past()}
	p.found, p.usable = &found.ResolvConf, usableBy(s)
	p.Conflicts = conflicts(s, p.Selection)
	known := lastGood(s)
	p.Change, p.Warnings = changeOf(known.Set, p.Selection.Set), known.Warnings
	p.Capture, p.Warnings = append(factsSteps(s), handoverSteps(s)...), append(p.Warnings, factsWarnings(s)...)
	if s.Handover != nil && s.Handover.Warning != "" {
		p.Warnings = append(p.Warnings, s.Handover.Warning)
	}
	// Without the kernel's addresses nobody can tell which nameserver is this node: what was captured before stays.
	if s.NetErr == nil && (!p.Selection.Set.IsEmpty() || p.knowsUpstream(s)) {
		p.Capture = append(p.Capture, captureSteps(s, p.Selection)...)
		record, _ := newRecord(s, p.Selection)
		p.Lacking = lackingSentence(record)
	}
	p.Capture = append(p.Capture, readableSteps(s, p.Capture)...)
	place := s.Placement()
	p.Problems = append(p.Problems, place.Problems...)
	p.Hold = hold(s, p, place.Nameserver)
	p.TakeFromNM, p.GiveToNM, p.OtherWriter = shieldSteps(s), unshieldSteps(s), besides(s)
	if p.Via != nodeconfig.ResolvConfFile {
		p.TakeFromNM, p.OtherWriter = p.GiveToNM, "" // /etc/resolv.conf is not ours to keep
	}
	if here := askedNameserver(s, place.Nameserver); here.IsValid() {
		p.Nameserver = netip.AddrPortFrom(here, nameserver.Port)
	}
	p.IfSilent = giveBack(found)
	if found.isOurs() || s.isEmptied() {
		p.Forget = forgetSteps(s)
	}
	switch {
	case p.leavesHost():
	case p.Hold != "":
		p.IfAnswering = slices.Concat(keepHere(s, p.Nameserver.Addr()), keepAsking(s, p.Nameserver.Addr()))
	case p.Via == nodeconfig.ResolvConfResolved:
		p.IfAnswering = append(askHere(s, place.Nameserver), giveBackFile(s)...)
		p.Warnings = append(p.Warnings, warnings(s, p)...)
	default:
		p.IfAnswering = append(pointHere(s, place.Nameserver), unaskSteps(s)...)
		p.Warnings = append(p.Warnings, warnings(s, p)...)
	}
	p.heed(s)
	return p
}

// LeftToAdmin is why resolv.conf is never written.
const LeftToAdmin = "resolvConf: none in /etc/node-dns/node-dns.yaml"

// leavesHost reports whether the host keeps its own nameservers, whatever answers here: one that was pointed here goes back.
func (p Plan) leavesHost() bool { return p.Hold == LeftToAdmin || p.Hold == NoWayBack }

// onlyCaptured is why resolv.conf is left alone where nothing else was asked for.
const onlyCaptured = "only the upstreams are captured"

// captureOnly is the plan without what it does to resolv.conf.
func (p Plan) captureOnly() Plan {
	p.IfAnswering, p.IfSilent, p.Nameserver, p.Hold = nil, nil, netip.AddrPort{}, onlyCaptured
	return p
}

// hold says why resolv.conf must not be pointed here, or "".
func hold(s State, p Plan, here netip.Addr) string {
	switch {
	case p.Via == nodeconfig.ResolvConfNone:
		return LeftToAdmin
	case s.LacksWayBack:
		return NoWayBack
	case s.ResolvConf.Err != nil:
		return "it cannot be read"
	case s.ConfigErr != nil:
		return "the configuration has faults" // the cluster domain may be one of them
	case s.NetErr != nil:
		return "this node's addresses are not known"
	case !here.IsValid():
		return "this node has no address to listen on (no default route, no nodeIP)"
	case !p.knowsUpstream(s):
		return "no upstream nameserver is known" // pointing here would end all names but the cluster's
	case p.Via == nodeconfig.ResolvConfResolved:
		return holdResolved(s)
	}
	return ""
}

// knowsUpstream reports whether there is a nameserver to forward to, captured or an admin's own: resolv.conf may point here.
func (p Plan) knowsUpstream(s State) bool {
	return len(p.Selection.Set.Servers)+len(s.Config.Upstreams)+len(s.Config.DNSNameservers) > 0
}

// askedNameserver is the local nameserver that must answer: the one at here, where the configuration and the kernel place
// it. Where one of them cannot tell, it is the one that our resolv.conf names, if that is still this node: a daemon that
// runs keeps its configuration through a faulty one, and its address through the loss of a default route.
func askedNameserver(s State, here netip.Addr) netip.Addr {
	if !s.pointsHere() || s.ConfigErr == nil && here.IsValid() {
		return here
	}
	for _, addr := range s.named() {
		if s.NetErr != nil || s.Net.IsLocal(addr) && !addr.IsLoopback() {
			return addr
		}
	}
	return here
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
	steps, verdict := p.decide(answers)
	before, after := p.around(verdict)
	return slices.Concat(p.Capture, before, steps, after, p.forgets(verdict), p.Purge)
}

// forgets are the steps after which nothing is left to go back to.
func (p Plan) forgets(verdict Verdict) []Step {
	if verdict == Restored || p.isRestore() || verdict == Written && p.Via == nodeconfig.ResolvConfResolved && p.Hold == "" {
		return p.Forget
	}
	return nil
}

// around is what is done about NetworkManager before and after what becomes of resolv.conf. One that is left alone stays
// with whom it was, unless this is a restore.
func (p Plan) around(verdict Verdict) (before, after []Step) {
	switch {
	case verdict == Written, verdict == Kept:
		return p.TakeFromNM, nil
	case verdict == Restored, verdict == Waiting, p.isRestore():
		return nil, p.GiveToNM
	}
	return nil, nil
}

func (p Plan) isRestore() bool { return p.Change == "" }

// decide says what becomes of resolv.conf when the local nameserver answers (or does not).
func (p Plan) decide(answers bool) ([]Step, Verdict) {
	switch {
	case !p.asks() && len(p.IfSilent) == 0:
		return nil, Held
	case p.leavesHost():
		return p.IfSilent, Restored
	case p.Nameserver.IsValid() && answers && len(p.IfAnswering) > 0:
		return p.IfAnswering, Written
	case p.Nameserver.IsValid() && answers && p.Hold != "":
		return nil, Held
	case p.Nameserver.IsValid() && answers:
		return nil, Kept
	case len(p.IfSilent) == 0:
		return nil, Waiting
	}
	return p.IfSilent, Restored
}

// asks reports whether anything depends on the local nameserver's answer.
func (p Plan) asks() bool {
	return p.Nameserver.IsValid() && !p.leavesHost() && (p.Hold == "" || len(p.IfAnswering)+len(p.IfSilent) > 0)
}

// decisive is the path that says whether steps have taken effect. The others clear up, or make ready.
func (p Plan) decisive(steps []Step, verdict Verdict) string {
	file := slices.ContainsFunc(steps, func(step Step) bool { return step.Path == p.Paths.ResolvConf })
	if file && (verdict != Written || p.Via != nodeconfig.ResolvConfResolved) {
		return p.Paths.ResolvConf
	}
	return p.Paths.DropIn
}

// Complete reports whether the plan, carried out, leaves resolv.conf as it should be: nothing holds it back, and the local
// nameserver answers where it is to be asked (silence is nil). A restore that finds nothing of ours is complete.
func (p Plan) Complete(silence error) bool {
	return silence == nil && (p.Hold == "" || p.Hold == notOurs || p.Hold == LeftToAdmin)
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
	if s.isOurs() || resolvedStub(s.ResolvConf) || byNetworkManager(s.ResolvConf.Data) && !IsOurs(p.found.Data) {
		return nil
	}
	var names []string
	refused := refuseCopies(s)
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
