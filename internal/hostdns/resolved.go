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

// via is how the host is pointed at this node: the value of resolvConf in node-dns.yaml, with auto
// replaced by its meaning here. If the configuration is invalid, the current mode stays.
func (s *State) via() nodeconfig.ResolvConf {
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

// libcAsksResolved reports whether resolv.conf points to systemd-resolved, or did before ours
// replaced it.
func (s *State) libcAsksResolved() bool {
	return resolvedStub(s.ResolvConf) || s.isOurs() && resolvedStub(s.Original)
}

// hasDropIn reports whether the drop-in exists and is ours.
func (s *State) hasDropIn() bool { return s.DropIn.Exists && isDropIn(s.DropIn.Data) }

// PointsResolved reports whether our drop-in tells systemd-resolved to query this node.
func (s *State) PointsResolved() bool {
	d, ours := parseDropIn(s.DropIn.Data)
	return ours && d.Server.IsValid()
}

func (p Paths) hasDropIn() bool { return isDropIn(ReadFile(p.Root, p.DropIn).Data) }

func isDropIn(text []byte) bool {
	_, ours := parseDropIn(text)
	return ours
}

// PointsHere reports whether node-dns has pointed /etc/resolv.conf or systemd-resolved at this
// node. It returns true if resolv.conf cannot be read.
func (p Paths) PointsHere() bool {
	file := ReadFile(p.Root, p.ResolvConf)
	return file.Err != nil || IsOurs(file.Data) || p.hasDropIn()
}

func (s *State) pointsHere() bool { return s.isOurs() || s.hasDropIn() }

// named returns the addresses in our resolv.conf and our drop-in.
func (s *State) named() []netip.Addr {
	var addrs []netip.Addr
	if s.isOurs() {
		addrs = resolvconf.Parse(s.ResolvConf.Data).Nameservers()
	}
	if d, ours := parseDropIn(s.DropIn.Data); ours && d.Server.IsValid() {
		addrs = append(addrs, d.Server)
	}
	return addrs
}

// lookAtResolvedConf reads systemd-resolved's configuration apart from our drop-in, if it matters.
func (s *State) lookAtResolvedConf() {
	via := s.Config.ResolvConf
	if via != nodeconfig.ResolvConfResolved && via != nodeconfig.ResolvConfAuto && !s.Paths.hasDropIn() {
		return
	}
	conf, err := readResolvedConf(s.Paths.Root, s.Paths.host(s.Paths.DropIn))
	if err != nil {
		s.problem("%v", err)
		return
	}
	s.ResolvedSays = &conf
}

// holdResolved returns the reason why systemd-resolved must not query this node, or "".
func holdResolved(s *State) string {
	switch {
	case !s.libcAsksResolved():
		return "it does not point to systemd-resolved, but resolvConf: resolved requires that"
	case s.DropIn.Err != nil || s.DropIn.Exists && !s.hasDropIn():
		return s.Paths.host(s.Paths.DropIn) + " was not written by node-dns"
	case s.ResolvedSays == nil:
		return "systemd-resolved's configuration cannot be read"
	case s.ResolvedSays.Over != "":
		return "systemd-resolved would ignore " + s.Paths.host(s.Paths.DropIn) + ": " + s.ResolvedSays.Over
	case s.ResolvedSays.TLS != "":
		return "systemd-resolved would query this node over TLS because of DNSOverTLS=yes in " + s.ResolvedSays.TLS
	}
	return ""
}

// askHere returns the steps that make systemd-resolved query this node. They notify it again if it
// does not do so yet: an earlier run may have ended before the notification.
func askHere(s *State, here netip.Addr) []Step {
	text := DropIn{Server: here, Domains: askedDomains(s)}.Bytes()
	steps := writeSteps(s.Paths.DropIn, s.DropIn, text)
	if len(steps) == 0 && !s.resolvedAsks(here) {
		steps = []Step{{Path: s.Paths.DropIn, Action: WriteFile, Data: text, Mode: 0o644, Before: s.DropIn}}
	}
	return telling(systemdResolved, steps)
}

// keepAsking corrects this node's address in a drop-in that is ours, and changes nothing else.
func keepAsking(s *State, here netip.Addr) []Step {
	d, ours := parseDropIn(s.DropIn.Data)
	if !ours || !d.Server.IsValid() || !here.IsValid() || s.NetErr != nil || d.Server == here {
		return nil
	}
	d.Server = here
	return []Step{{Path: s.Paths.DropIn, Action: WriteFile, Data: d.Bytes(), Mode: 0o644, Before: s.DropIn, Tell: systemdResolved}}
}

// unaskSteps make systemd-resolved stop querying this node. They empty the drop-in first and remove
// it once systemd-resolved has reloaded. If a run ends in between, the next one sees what is left
// to do.
func unaskSteps(s *State) []Step {
	if !s.hasDropIn() {
		return nil
	}
	empty := DropIn{}.Bytes()
	return []Step{
		{Path: s.Paths.DropIn, Action: WriteFile, Data: empty, Mode: 0o644, Before: s.DropIn, Tell: systemdResolved},
		{Path: s.Paths.DropIn, Action: Remove, Before: File{Exists: true, Data: empty, Mode: 0o644}},
	}
}

// giveBack returns the steps after which nothing points at this node.
func giveBack(s *State) []Step { return append(giveBackFile(s), unaskSteps(s)...) }

func giveBackFile(s *State) []Step {
	edit, edited := s.edited()
	switch {
	case edited && usable(refuseCopies(s), edit.Data):
		step := edit.restoring(s.Paths.ResolvConf)
		step.Mode, step.Before = 0o644, s.ResolvConf
		return []Step{step}
	case s.isOurs(), s.isEmptied():
		return restoreSteps(s)
	}
	return nil
}

// resolvedAsks reports whether systemd-resolved queries addr. It lists its nameservers in a file,
// which it writes when it starts, reloads its configuration, or learns of a link.
func (s *State) resolvedAsks(addr netip.Addr) bool {
	return slices.Contains(resolvconf.Parse(s.ResolvedUplinks.Data).Nameservers(), addr)
}

// maxDomains bounds the number of the drop-in's domains.
const maxDomains = 32

// askedDomains returns the drop-in's domains: the cluster's, searched first if there is a cluster;
// an admin's; "~." for all others; and those of links and of an admin's routes, because
// systemd-resolved uses the longest match. If we and a link match equally, it queries both and
// takes the first positive answer. A link's domain stays after the link is gone. That is harmless
// and saves a restart of systemd-resolved.
func askedDomains(s *State) []string {
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
	before, _ := parseDropIn(s.DropIn.Data)
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

// isNotifyOnly reports whether a step changes nothing and only notifies systemd-resolved again.
func (s Step) isNotifyOnly() bool {
	return s.Tell == systemdResolved && s.Action == WriteFile && s.Before.is(s.Data)
}

// removeResolvedConflict is removeConflicts for the drop-in. It pauses if another program keeps
// removing the drop-in, or if systemd-resolved does not follow it: each notification loses queries.
func (p *Plan) removeResolvedConflict() {
	path := p.Paths.host(p.Paths.DropIn)
	i := slices.IndexFunc(p.IfAnswering, func(step Step) bool { return step.Path == p.Paths.DropIn })
	f := p.past.rewrites.Files[path]
	if i < 0 || !p.IfAnswering[i].isNotifyOnly() && !f.isOver(p.IfAnswering[i].Before) {
		return
	}
	if f.isBackingOff(p.past.now) {
		why := path + " keeps being removed or has no effect; next try after " + untilText(f)
		p.RewriteLoop, p.Hold, p.IfAnswering = true, cmp.Or(p.Hold, why), nil
	}
}

const (
	resolvedUnit = "systemd-resolved.service"
	// resolvedTimeout bounds a restart of systemd-resolved, which usually takes 0.2 s.
	resolvedTimeout = time.Second
)

// TellResolved makes systemd-resolved read its configuration by restarting it. Queries in progress
// are lost. A reload, available since 256, does not rewrite its resolv.confs (seen with 257), so
// the search list would stay. If systemd-resolved does not run, TellResolved does nothing: it reads
// its configuration when it starts.
func TellResolved(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, resolvedTimeout)
	defer cancel()
	manager, err := dbusconn.DialManager(ctx, dbusconn.ManagerSocket)
	if errors.Is(err, dbusconn.ErrNoBus) {
		return nil // systemd does not run here, so systemd-resolved does not run as its unit
	}
	if err != nil {
		return err
	}
	defer manager.Close()
	return manager.TryRestart(ctx, resolvedUnit)
}
