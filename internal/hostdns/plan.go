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

// Change says how the captured upstreams differ from those before the run.
type Change string

const (
	Same    Change = "same"    // the same servers in the same order
	Order   Change = "order"   // the same servers in a different order
	Changed Change = "changed" // other servers
	None    Change = "none"    // no upstream is known; the captured ones stay
)

// Action is what a Step does to its path.
type Action string

const (
	WriteFile Action = "write"
	MakeLink  Action = "link"
	Remove    Action = "remove"
)

// program is a program that reads a file of ours.
type program string

const (
	noProgram       program = ""
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
	Owner  int         // WriteFile: user ID of the owner; 0 means the user that writes it
	Secret bool        // WriteFile, Remove: the content must not be shown
	Tell   program     // program to notify, even if nothing changed, so that it reads its configuration again
	Renew  bool        // NetworkManager must write resolv.conf again, through the link that this step makes
	Before File        // the file as it is now, for the diff and the undo
}

// Plan is the list of changes that a State requires. Applying it twice changes nothing the second
// time: it has a Step only for a path whose content is wrong.
type Plan struct {
	Paths      Paths
	Selection  upstream.Selection
	Change     Change                // "" for a restore, which captures nothing
	Nameserver netip.AddrPort        // the local nameserver for resolv.conf; zero if there is none
	Stopped    netip.AddrPort        // restore: address where a running node-dns would answer; zero skips that check
	Ours       bool                  // resolv.conf is already ours, or systemd-resolved queries this node
	Via        nodeconfig.ResolvConf // how the host is pointed at this node: file, resolved or none; "" for a restore

	Capture     []Step // the daemon's input: always done, and first
	IfAnswering []Step // only if Nameserver answers: point resolv.conf or systemd-resolved at this node
	IfSilent    []Step // only if Nameserver is silent or does not exist: back to the original nameservers

	TakeFromNM  []Step // before resolv.conf names this node: stop NetworkManager from writing it
	GiveToNM    []Step // after resolv.conf no longer names this node: let NetworkManager write it again
	Forget      []Step // last, once the restored resolv.conf has stayed: remove the saved original
	Purge       []Step // after a restore, if node-dns does not run: remove all that it created
	OtherWriter string // another program that writes resolv.conf by an admin's decision; "" if none

	OverwrittenBy string // the program that overwrote our resolv.conf, as the file says, if we restore ours; "" if none
	RewriteLoop   bool   // the overwrites went on for too long, and Hold says so
	past          past
	found         *File                  // resolv.conf before the run
	usable        func(text []byte) bool // reports whether a resolv.conf names a nameserver other than this node

	// Hold is why resolv.conf does not get its full content, or "". A file that is not ours is then
	// left alone. In one that is ours, only the nameserver is kept correct, and the file can still
	// go back to the original.
	Hold string

	Problems  []string
	Warnings  []string
	Lacking   string   // warning that the network offers no usable upstream, with reason and start, while last-good ones serve; or ""
	Conflicts []string // conflicts of an admin's static servers with others, already resolved
}

// NewPlan decides what the host's files must contain. It is pure: the same State gives the same
// Plan, and it reads and writes nothing.
func NewPlan(state State) Plan {
	s := &state
	s.parsed = s.known()
	s.Net = assumed(s)
	found := state
	edit, edited := s.edited()
	if edited {
		s.ResolvConf, s.isEdit = edit, true // another program's file, except for our line
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
	// Without the kernel's addresses, node-dns cannot tell which nameserver is this node, so the
	// captured upstreams stay.
	if s.NetErr == nil && (!p.Selection.Set.IsEmpty() || p.knowsUpstream(s)) {
		p.Capture = append(p.Capture, captureSteps(s, p.Selection)...)
		record, _ := newRecord(s, p.Selection)
		p.Lacking = lackingSentence(record)
	}
	p.Capture = append(p.Capture, readableSteps(s, p.Capture)...)
	place := s.Placement()
	p.Problems = append(p.Problems, place.Problems...)
	p.Hold = hold(s, p, place.Nameserver)
	p.TakeFromNM, p.GiveToNM, p.OtherWriter = shieldSteps(s), unshieldSteps(s), otherWriter(s)
	if p.Via != nodeconfig.ResolvConfFile {
		p.TakeFromNM, p.OtherWriter = p.GiveToNM, "" // /etc/resolv.conf is not ours to keep
	}
	if here := askedNameserver(s, place.Nameserver); here.IsValid() {
		p.Nameserver = netip.AddrPortFrom(here, nameserver.Port)
	}
	p.IfSilent = giveBack(&found)
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
	p.removeConflicts(s)
	return p
}

// LeftToAdmin is Hold's text if the configuration forbids writing resolv.conf.
const LeftToAdmin = "resolvConf: none in /etc/node-dns/node-dns.yaml"

// leavesHost reports whether the host keeps its own nameservers even if the local one answers. A
// host that points here goes back.
func (p Plan) leavesHost() bool { return p.Hold == LeftToAdmin || p.Hold == NoWayBack }

// onlyCaptured is Hold's text for a run that only captures upstreams.
const onlyCaptured = "only the upstreams are captured"

// captureOnly returns the plan without its changes to resolv.conf.
func (p Plan) captureOnly() Plan {
	p.IfAnswering, p.IfSilent, p.Nameserver, p.Hold = nil, nil, netip.AddrPort{}, onlyCaptured
	return p
}

// hold returns the reason why resolv.conf must not point here, or "".
func hold(s *State, p Plan, here netip.Addr) string {
	switch {
	case p.Via == nodeconfig.ResolvConfNone:
		return LeftToAdmin
	case s.LacksWayBack:
		return NoWayBack
	case s.ResolvConf.Err != nil:
		return "it cannot be read"
	case s.ConfigErr != nil:
		return "the configuration has errors" // the cluster domain may be one of them
	case s.NetErr != nil:
		return "this node's addresses are unknown"
	case !here.IsValid():
		return "this node has no address to listen on (no default route, no nodeIP)"
	case !p.knowsUpstream(s):
		return "no upstream nameserver is known" // pointing here would break all names outside the cluster
	case p.Via == nodeconfig.ResolvConfResolved:
		return holdResolved(s)
	}
	return ""
}

// knowsUpstream reports whether there is a captured or configured upstream, so that resolv.conf may
// point here.
func (p Plan) knowsUpstream(s *State) bool {
	return len(p.Selection.Set.Servers)+len(s.Config.Upstreams)+len(s.Config.DNSNameservers) > 0
}

// askedNameserver returns the local nameserver that must answer: the one at here, according to the
// configuration and the kernel. If either is unknown, it returns the one that our resolv.conf
// names, if that is still this node. A running daemon keeps its configuration when the file becomes
// invalid, and its address when the default route disappears.
func askedNameserver(s *State, here netip.Addr) netip.Addr {
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

// Steps returns the changes that the host needs if its local nameserver answers, or if it does not.
func (p Plan) Steps(answers bool) []Step {
	steps, verdict := p.decide(answers)
	before, after := p.around(verdict)
	return slices.Concat(p.Capture, before, steps, after, p.forgets(verdict), p.Purge)
}

// forgets returns the steps that remove the way back once nothing is left to restore.
func (p Plan) forgets(verdict Verdict) []Step {
	if verdict == Restored || p.isRestore() || verdict == Written && p.Via == nodeconfig.ResolvConfResolved && p.Hold == "" {
		return p.Forget
	}
	return nil
}

// around returns the steps for NetworkManager before and after the change to resolv.conf. If
// resolv.conf is left alone, its writer stays the same, unless this is a restore.
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

// decide says what happens to resolv.conf if the local nameserver answers, or if it does not.
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

// asks reports whether the plan depends on the local nameserver's answer.
func (p Plan) asks() bool {
	return p.Nameserver.IsValid() && !p.leavesHost() && (p.Hold == "" || len(p.IfAnswering)+len(p.IfSilent) > 0)
}

// decisive returns the path that decides whether steps have taken effect. The others only prepare
// or clean up.
func (p Plan) decisive(steps []Step, verdict Verdict) string {
	file := slices.ContainsFunc(steps, func(step Step) bool { return step.Path == p.Paths.ResolvConf })
	if file && (verdict != Written || p.Via != nodeconfig.ResolvConfResolved) {
		return p.Paths.ResolvConf
	}
	return p.Paths.DropIn
}

// Complete reports whether the applied plan leaves resolv.conf as it should be: nothing holds it
// back, and the local nameserver answers if it was queried (silence is nil). A restore that finds
// nothing of ours is complete.
func (p Plan) Complete(silence error) bool {
	return silence == nil && (p.Hold == "" || p.Hold == notOurs || p.Hold == LeftToAdmin)
}

// warnings tell an admin about issues that do not stop the plan.
func warnings(s *State, p Plan) []string {
	var w []string
	if names := droppedNameservers(s, p); len(names) > 0 {
		w = append(w, "/etc/resolv.conf named "+strings.Join(names, " ")+", but "+string(p.Selection.Origin)+
			" does not; to keep it, set upstreams in /etc/node-dns/node-dns.yaml")
	}
	return append(w, searchWarnings(s)...)
}

// droppedNameservers returns the nameservers of an admin's resolv.conf that are not captured. A
// file that NetworkManager wrote does not count: it is just older than NetworkManager's present
// list.
func droppedNameservers(s *State, p Plan) []string {
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
