// Package migrate moves a node from its current DNS setup to node-dns, and back.
//
// Survey collects everything that may serve a node's DNS into a Host. Find reports what is there,
// and NewPlan lists the steps from there to node-dns such that names resolve at every moment. Both
// are pure. An Applier carries out a Plan. It writes each step to a journal first, so that after a
// crash the migration can be continued or undone.
//
// Package hostdns maintains a node that already runs node-dns. This package handles the other
// tools, their hooks and units, and the handover of port 53.
package migrate

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/node-dns/node-dns/internal/dns/nameserver"
	"github.com/node-dns/node-dns/internal/hostdns"
	"github.com/node-dns/node-dns/internal/netstate"
	"github.com/node-dns/node-dns/internal/nodeconfig"
)

// Finding is a tool that serves this node's DNS today.
type Finding struct {
	Origin string `json:"origin"`
	What   string `json:"what"` // one line, with a path or a unit
	// Evidence lists what was found, one line each.
	Evidence []string `json:"evidence,omitempty"`
}

// say adds a line of evidence if isTrue is set.
func (f *Finding) say(isTrue bool, format string, args ...any) {
	if isTrue {
		f.Evidence = append(f.Evidence, fmt.Sprintf(format, args...))
	}
}

// Plan leads from the findings to node-dns. If Steps is empty, there is nothing to do.
type Plan struct {
	Findings []Finding `json:"findings"`
	// Refused holds the reasons why an admin must act before anything is changed. If it is empty,
	// the plan can be carried out.
	Refused []string `json:"refused,omitempty"`
	// Owner lists what must be done first, in this order, where the node's files are managed. It
	// cannot be done from here. The plan shows the remaining steps afterwards.
	Owner []string `json:"owner,omitempty"`
	Notes []string `json:"notes,omitempty"` // what an admin should know about the plan
	Steps []Step   `json:"steps,omitempty"`
	// Then lists what a cluster administrator does after the steps.
	Then []string `json:"then,omitempty"`
}

// origin is one kind of DNS setup that a node may have.
type origin struct {
	name  string
	files []string // paths below the root that it reads from Host.Files
	units []string // names that it reads from Host.Units
	// find is pure and returns nil if nothing of this origin exists.
	find func(h Host) []Finding
	// steps is pure and called only if find returned something.
	steps func(h Host) part
}

// part is the contribution of one origin to a Plan.
type part struct {
	before  []Step // done first, while everything is unchanged, so that no program starts it again
	port    []Step // done when node-dns is ready except for port 53, which it now gets
	after   []Step // done when node-dns serves
	refused []string
	notes   []string

	owner     []string            // Plan.Owner
	then      []string            // Plan.Then
	told      []Holder            // holders that refused already mentions
	gone      []netip.Addr        // addresses that its steps remove from the node
	upstreams []nameserver.Server // servers that its steps configure for node-dns
}

// origins returns all known origins in the order of the output.
func origins() []origin {
	return []origin{openshift3(), plainDnsmasq(), openshift4(), singleNode(), nodelocal(), interception(), systemdResolved(), resolvconfs(), cloudInit(), k3s(), kubeletResolv()}
}

// Find returns the tools that serve this node's DNS. It is pure.
func Find(h Host) []Finding {
	var all []Finding
	for _, o := range origins() {
		all = append(all, o.find(h)...)
	}
	return all
}

// NewPlan returns the steps from the findings to node-dns. It is pure.
func NewPlan(h Host, found []Finding) Plan {
	p := Plan{Findings: found}
	isHeld := func(holder Holder) bool { return holder.Addr.Port() == portDNS }
	if !h.Root && (len(found) > 0 || slices.ContainsFunc(h.Holders, isHeld)) {
		p.Refused = []string{"only root can see which program uses port 53 and read the relevant files: run node-dns migrate as root"}
		return p
	}
	if len(found) == 0 {
		return p
	}
	h = h.intercepting(found)
	p.Refused = h.unfit()
	var all part
	for _, o := range origins() {
		if !slices.ContainsFunc(found, func(f Finding) bool { return f.Origin == o.name }) {
			continue
		}
		its := o.steps(h)
		all.before, all.port, all.after = append(all.before, its.before...), append(all.port, its.port...), append(all.after, its.after...)
		all.told, all.gone, all.upstreams = append(all.told, its.told...), append(all.gone, its.gone...), append(all.upstreams, its.upstreams...)
		p.Refused, p.Notes, p.Owner = append(p.Refused, its.refused...), append(p.Notes, its.notes...), append(p.Owner, its.owner...)
		p.Then = append(p.Then, its.then...)
	}
	if h.Files[machineConfigNow].Exists && len(p.Owner) == 0 && slices.ContainsFunc(slices.Concat(all.before, all.port, all.after), Step.changesFiles) {
		p.Refused = append(p.Refused, ownedByMachineConfig)
	}
	h = h.after(all)
	if step, listen, ok := h.keepListening(all.port); ok && len(p.Owner) == 0 && !h.Files[machineConfigNow].Exists {
		all.before, h.State.Config.Listen = append(all.before, step), listen
		all.port = h.retaken(all.port)
	}
	p.Refused = append(p.Refused, h.foreignHolders(all.port)...)
	p.Notes = slices.Concat(p.Notes, h.notes(all.port))
	if h.State.Config.Intercept.IsNone() {
		p.Notes = append(p.Notes, h.filtered()...)
	} else { // pods are answered now, and their queries would be dropped
		p.Refused = append(p.Refused, h.filtered()...)
	}
	if first := slices.Concat(all.before, all.port, all.after); len(p.Owner) == 0 && !(len(first) == 0 && h.serves()) {
		p.Steps = slices.Concat(all.before, []Step{h.startStep()}, all.port, []Step{h.pointStep()}, all.after, []Step{h.checkStep()})
	}
	return p
}

// serves reports whether node-dns already serves the node and will do so after the next boot.
func (h Host) serves() bool {
	unit := h.Units[daemonUnit]
	return unit.IsActive() && unit.File == "enabled"
}

// after returns the host as it is after the first steps, as far as the other steps depend on that.
func (h Host) after(p part) Host {
	h.State.Net.Addrs = slices.DeleteFunc(slices.Clone(h.State.Net.Addrs), func(a netstate.Addr) bool { return slices.Contains(p.gone, a.Addr) })
	h.Holders = h.holdersWhere(func(holder Holder) bool { return !slices.Contains(p.told, holder) })
	h.Files = maps.Clone(h.Files)
	for _, s := range p.before {
		if s.Kind == WriteFile {
			h.Files[s.Path] = hostdns.File{Exists: true, Data: []byte(s.Content)}
		}
	}
	h.State.Config.Upstreams = append(slices.Clip(h.State.Config.Upstreams), p.upstreams...)
	return h
}

// unfit returns the reasons why node-dns cannot serve here.
func (h Host) unfit() []string {
	var why []string
	unit := h.Units[daemonUnit]
	switch {
	case unit.Load == "masked":
		why = append(why, daemonUnit+" is masked: systemctl unmask node-dns")
	case unit.Load != "loaded":
		why = append(why, "node-dns is not installed: there is no "+daemonUnit)
	}
	if h.State.ConfigErr != nil {
		why = append(why, "the configuration has errors: "+oneLine(h.State.ConfigErr))
	} else if h.Plan.Hold != "" && h.Plan.Hold != hostdns.LeftToAdmin {
		why = append(why, "node-dns could not serve: "+h.Plan.Hold)
	}
	if h.Fixed && h.Plan.Via != nodeconfig.ResolvConfResolved && h.Plan.Via != nodeconfig.ResolvConfNone && !hostdns.IsOurs(h.State.ResolvConf.Data) {
		why = append(why, "/etc/resolv.conf is immutable, but must name this node: chattr -i /etc/resolv.conf, or set resolvConf: none in /etc/node-dns/node-dns.yaml")
	}
	if h.DnsmasqErr != nil {
		why = append(why, "dnsmasq's files, which node-dns also reads, have errors: "+oneLine(h.DnsmasqErr))
	}
	return append(why, h.obstacles()...)
}

// foreignHolders returns the programs at addresses for node-dns that no step removes. A program at
// a loopback address is only noted, because OpenShift's node process has its own nameserver at such
// an address.
func (h Host) foreignHolders(port []Step) []string {
	var why []string
	for _, at := range h.listen() {
		for _, holder := range h.Holders {
			if holder.Covers(at) && !gives(port, holder) && holder.Unit != daemonUnit && !at.Addr().IsLoopback() {
				fix := "stop it first"
				if holder.IsNodeAgent() {
					fix = "`listen` in /etc/node-dns/node-dns.yaml can exclude that address"
				}
				why = append(why, fmt.Sprintf("port 53 of %v is used by %v, which cannot be migrated automatically: %s", at.Addr(), holder, fix))
			}
		}
	}
	slices.Sort(why)
	return slices.Compact(why)
}

// notes describes intended differences after the migration, and programs that are not changed.
func (h Host) notes(port []Step) []string {
	var notes []string
	listen := h.listen()
	for _, holder := range h.Holders {
		at, gives := holder.Addr, gives(port, holder)
		switch {
		case gives && at.Addr().IsUnspecified():
			if !h.State.Config.Listen.All && len(h.Dnsmasq.Listen)+len(h.Dnsmasq.Interfaces) == 0 {
				notes = append(notes, holder.Unit+" answers on every address of this node, but node-dns only on those it listens on: `listen: all` in /etc/node-dns/node-dns.yaml covers every address except loopback, including later ones")
			}
		case gives && !slices.ContainsFunc(listen, func(ours netip.AddrPort) bool { return isAt(at, ours) }):
			notes = append(notes, fmt.Sprintf("%s also answers on %v, but node-dns will not: add it to `listen` in /etc/node-dns/node-dns.yaml if needed", holder.Unit, at.Addr()))
		case !gives && holder.Unit != daemonUnit && at.Addr().IsLoopback() && slices.Contains(listen, at):
			notes = append(notes, fmt.Sprintf("%v uses port 53 of %v, on which node-dns should also listen (dnsBindAddress or listen): node-dns status reports this until it stops", holder, at.Addr()))
		case !gives && holder.Unit != daemonUnit && holder.Name == "dnsmasq":
			notes = append(notes, fmt.Sprintf("%v at %v is not changed", holder, at.Addr()))
		}
	}
	slices.Sort(notes)
	return slices.Compact(notes)
}

func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }
