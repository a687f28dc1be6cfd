package hostdns

import (
	"cmp"
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/nodeconfig"
	"github.com/node-dns/node-dns/internal/resolvconf"
	"github.com/node-dns/node-dns/internal/sys/dbusconn"
)

// via is what is to name this node: resolvConf of node-dns.yaml, with auto decided. A configuration with faults may not
// say it right: what names this node already goes on to.
func (s State) via() nodeconfig.ResolvConf {
	via := cmp.Or(s.Config.ResolvConf, nodeconfig.ResolvConfFile)
	switch {
	case s.ConfigErr != nil && s.hasDropIn():
		return nodeconfig.ResolvConfResolved
	case s.ConfigErr != nil:
		return nodeconfig.ResolvConfFile
	case via == nodeconfig.ResolvConfAuto && s.libcAsksResolved():
		return nodeconfig.ResolvConfResolved
	case via == nodeconfig.ResolvConfAuto:
		return nodeconfig.ResolvConfFile
	}
	return via
}

// libcAsksResolved reports whether resolv.conf leads to systemd-resolved, or did before ours displaced it.
func (s State) libcAsksResolved() bool {
	return resolvedStub(s.ResolvConf) || s.isOurs() && resolvedStub(s.Original)
}

// hasDropIn reports whether the drop-in is there, and ours.
func (s State) hasDropIn() bool { return s.DropIn.Exists && isDropIn(s.DropIn.Data) }

// PointsResolved reports whether systemd-resolved is to ask this node.
func (s State) PointsResolved() bool {
	d, ours := ParseDropIn(s.DropIn.Data)
	return ours && d.Server.IsValid()
}

func (p Paths) hasDropIn() bool { return isDropIn(ReadFile(p.Root, p.DropIn).Data) }

func isDropIn(text []byte) bool {
	_, ours := ParseDropIn(text)
	return ours
}

// PointsHere reports whether /etc/resolv.conf or systemd-resolved names this node because node-dns has said so. One that
// cannot be read may.
func (p Paths) PointsHere() bool {
	file := ReadFile(p.Root, p.ResolvConf)
	return file.Err != nil || IsOurs(file.Data) || p.hasDropIn()
}

func (s State) pointsHere() bool { return s.isOurs() || s.hasDropIn() }

// named are the addresses that what is ours names.
func (s State) named() []netip.Addr {
	var addrs []netip.Addr
	if s.isOurs() {
		addrs = resolvconf.Parse(s.ResolvConf.Data).Nameservers()
	}
	if d, ours := ParseDropIn(s.DropIn.Data); ours && d.Server.IsValid() {
		addrs = append(addrs, d.Server)
	}
	return addrs
}

// lookAtResolvedConf reads what stands beside our drop-in, where that counts.
func (s *State) lookAtResolvedConf() {
	via := s.Config.ResolvConf
	if via != nodeconfig.ResolvConfResolved && via != nodeconfig.ResolvConfAuto && !s.Paths.hasDropIn() {
		return
	}
	conf, err := ReadResolvedConf(s.Paths.Root, s.Paths.host(s.Paths.DropIn))
	if err != nil {
		s.problem("%v", err)
		return
	}
	s.ResolvedSays = &conf
}

// holdResolved says why systemd-resolved must not be told to ask this node, or "".
func holdResolved(s State) string {
	switch {
	case !s.libcAsksResolved():
		return "it does not lead to systemd-resolved, as resolvConf: resolved has it"
	case s.DropIn.Err != nil || s.DropIn.Exists && !s.hasDropIn():
		return s.Paths.host(s.Paths.DropIn) + " is not node-dns's"
	case s.ResolvedSays == nil:
		return "systemd-resolved's configuration cannot be read"
	case s.ResolvedSays.Over != "":
		return "systemd-resolved would not heed " + s.Paths.host(s.Paths.DropIn) + ": " + s.ResolvedSays.Over
	case s.ResolvedSays.TLS != "":
		return "systemd-resolved would ask this node over TLS: DNSOverTLS=yes in " + s.ResolvedSays.TLS
	}
	return ""
}

// askHere are the steps that have systemd-resolved ask this node. It is told once more where it does not yet: an earlier
// run may have ended before.
func askHere(s State, here netip.Addr) []Step {
	text := DropIn{Server: here, Domains: askedDomains(s)}.Bytes()
	step, changes := writeStep(s.Paths.DropIn, s.DropIn, text)
	if !changes && !s.resolvedAsks(here) {
		step, changes = Step{Path: s.Paths.DropIn, Action: WriteFile, Data: text, Mode: 0o644, Before: s.DropIn}, true
	}
	if !changes {
		return nil
	}
	step.Tell = systemdResolved
	return []Step{step}
}

// keepAsking names this node in a drop-in that is ours, and changes nothing else in it.
func keepAsking(s State, here netip.Addr) []Step {
	d, ours := ParseDropIn(s.DropIn.Data)
	if !ours || !d.Server.IsValid() || !here.IsValid() || s.NetErr != nil || d.Server == here {
		return nil
	}
	d.Server = here
	return []Step{{Path: s.Paths.DropIn, Action: WriteFile, Data: d.Bytes(), Mode: 0o644, Before: s.DropIn, Tell: systemdResolved}}
}

// unaskSteps have systemd-resolved forget this node. The drop-in is emptied first, and removed when that was heard: where
// a run ends between the two, the next one finds what is still to be done.
func unaskSteps(s State) []Step {
	if !s.hasDropIn() {
		return nil
	}
	empty := DropIn{}.Bytes()
	return []Step{
		{Path: s.Paths.DropIn, Action: WriteFile, Data: empty, Mode: 0o644, Before: s.DropIn, Tell: systemdResolved},
		{Path: s.Paths.DropIn, Action: Remove, Before: File{Exists: true, Data: empty, Mode: 0o644}},
	}
}

// giveBack are the steps after which nothing names this node.
func giveBack(s State) []Step { return append(giveBackFile(s), unaskSteps(s)...) }

func giveBackFile(s State) []Step {
	edit, edited := s.edited()
	switch {
	case edited:
		return []Step{{Path: s.Paths.ResolvConf, Action: WriteFile, Data: edit.Data, Mode: 0o644, Before: s.ResolvConf}}
	case s.isOurs(), s.isEmptied():
		return restoreSteps(s)
	}
	return nil
}

// resolvedAsks reports whether systemd-resolved has taken an address over: the nameservers that it asks stand in a file of
// its own, which it writes when it starts, reads its configuration again, or hears of a link.
func (s State) resolvedAsks(addr netip.Addr) bool {
	return slices.Contains(resolvconf.Parse(s.ResolvedUplinks.Data).Nameservers(), addr)
}

// maxDomains bounds the drop-in's list.
const maxDomains = 32

// askedDomains are the drop-in's domains: the cluster's, which is searched first where there is a cluster, and an admin's; all others, "~."; and
// those that a link has a claim on, and an admin's routes, because systemd-resolved goes by the longest match. Where we are
// as good as a link it asks both, and takes the first that knows the name. A link's domain stays when the link goes: it
// does no harm, and systemd-resolved need not be told.
func askedDomains(s State) []string {
	var domains []string
	if s.searchesCluster() {
		domains = append(domains, s.Config.ClusterDomain.Relative())
	}
	add := func(domain string) {
		text, routing := strings.CutPrefix(domain, "~")
		name, err := dnsname.Parse(text)
		if err != nil || name.IsRoot() || strings.Contains(text, "*") || len(domains) == maxDomains {
			return
		}
		if text = name.Relative(); slices.Contains(domains, text) {
			return
		}
		if routing {
			text = "~" + text
		}
		if !slices.Contains(domains, text) {
			domains = append(domains, text)
		}
	}
	if s.ResolvedSays != nil {
		for _, domain := range s.ResolvedSays.Domains {
			add(domain)
		}
	}
	domains = append(domains, "~.")
	before, _ := ParseDropIn(s.DropIn.Data)
	for _, domain := range before.Domains {
		if strings.HasPrefix(domain, "~") {
			add(domain)
		}
	}
	for _, domain := range resolvconf.Parse(s.ResolvedUplinks.Data).Search() {
		add("~" + domain)
	}
	for _, route := range s.Config.Routes {
		add("~" + route.Domain.Relative())
	}
	return domains
}

// isRetold reports whether a step changes nothing, and only tells systemd-resolved once more.
func (s Step) isRetold() bool {
	return s.Tell == systemdResolved && s.Action == WriteFile && s.Before.is(s.Data)
}

// heedResolved is heed for the drop-in: who takes it away again and again, and a systemd-resolved that does not do what it
// says, are left alone for a while: it loses queries each time that it is told.
func (p *Plan) heedResolved() {
	path := p.Paths.host(p.Paths.DropIn)
	i := slices.IndexFunc(p.IfAnswering, func(step Step) bool { return step.Path == p.Paths.DropIn })
	f := p.past.rewrites.Files[path]
	if i < 0 || !p.IfAnswering[i].isRetold() && !f.isOver(p.IfAnswering[i].Before) {
		return
	}
	if f.isTruce(p.past.now) {
		why := path + " does not stay, or is not heeded; tried again after " + untilText(f)
		p.RewriteLoop, p.Hold, p.IfAnswering = true, cmp.Or(p.Hold, why), nil
	}
}

const (
	resolvedUnit = "systemd-resolved.service"
	// resolvedTimeout is how long that may take, which is 0.2 s.
	resolvedTimeout = time.Second
)

// TellResolved has systemd-resolved read its configuration, by a restart: what its clients have asked meanwhile is lost. On
// a reload, which it knows since 256, it does not write its resolv.confs (seen with 257), and the search list would stay as
// it was. One that does not run reads its configuration when it starts.
func TellResolved(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, resolvedTimeout)
	defer cancel()
	manager, err := dbusconn.DialManager(ctx, dbusconn.ManagerSocket)
	if errors.Is(err, dbusconn.ErrNoBus) {
		return nil // no systemd runs here, and so no unit of its own
	}
	if err != nil {
		return err
	}
	defer manager.Close()
	return manager.TryRestart(ctx, resolvedUnit)
}
