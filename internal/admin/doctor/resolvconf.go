package doctor

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/admin/migrate"
	"github.com/node-dns/node-dns/internal/hostdns"
	"github.com/node-dns/node-dns/internal/nm"
	"github.com/node-dns/node-dns/internal/nodeconfig"
	"github.com/node-dns/node-dns/internal/resolvconf"
	"github.com/node-dns/node-dns/internal/sys/procfs"
)

const (
	resolvConf = "/etc/resolv.conf"
	netConf    = "net_conf_t"
)

// checkResolvConf checks the file that libc reads: its type and its nameservers.
func checkResolvConf(s Snapshot) []Finding {
	file := s.Host.State.ResolvConf
	switch {
	case !file.Exists:
		return []Finding{fail(resolvConf+" does not exist: libc asks 127.0.0.1", "origin-dns-dispatcher apply; without node-dns: nmcli general reload dns-rc")}
	case file.Link != "" && s.ResolvConf.Kind == "" && file.Data == nil:
		return []Finding{fail(resolvConf+" points to "+file.Link+", which does not exist: libc asks 127.0.0.1", "origin-dns-dispatcher apply; without node-dns: rm "+resolvConf+" && nmcli general reload dns-rc")}
	case file.Err != nil:
		return []Finding{fail(fmt.Sprintf("%s cannot be read: %v", resolvConf, file.Err), "ls -l "+resolvConf)}
	}
	return orFine(append(s.resolvConfFile(), s.resolvConfText()...), "%s", s.resolvConfWords())
}

// resolvConfFile checks everything but the content.
func (s Snapshot) resolvConfFile() []Finding {
	var found []Finding
	f := s.ResolvConf
	if f.Mode&0o004 == 0 {
		found = append(found, fail(fmt.Sprintf("%s has mode %04o: only its owner can read the nameservers", resolvConf, f.Mode), "chmod 644 "+resolvConf))
	}
	if f.Mode&0o022 != 0 {
		found = append(found, warn(fmt.Sprintf("%s has mode %04o: users other than root may write it", resolvConf, f.Mode), "chmod 644 "+resolvConf))
	}
	// systemd-resolved's own files belong to systemd-resolve.
	if f.UID != 0 && s.Host.State.ResolvConf.Link == "" {
		found = append(found, warn(fmt.Sprintf("%s is owned by UID %d, not by root", resolvConf, f.UID), "chown root:root "+resolvConf))
	}
	if kind := procfs.SELinuxType(f.Label); s.SELinux.Mode.IsOn() && kind != netConf {
		found = append(found, fail(fmt.Sprintf("%s has the SELinux label %s, not %s: confined programs may not read it", resolvConf, orNone(kind), netConf), "restorecon -v "+resolvConf))
	}
	if s.Host.Fixed {
		level := warn
		if s.Status != nil && slices.Contains(s.Status.ResolvConf.Pending, resolvConf) {
			level = fail
		}
		found = append(found, level(resolvConf+" is immutable: node-dns cannot change it", "chattr -i "+resolvConf+"; or, if it is intended, set resolvConf: none in node-dns.yaml"))
	}
	if f.ReadOnly {
		found = append(found, warn(resolvConf+" is on a read-only file system: it cannot follow the node's address", "mount shows where; remove a bind mount over it"))
	}
	return found
}

// resolvConfText checks the nameservers in the file.
func (s Snapshot) resolvConfText() []Finding {
	state := s.Host.State
	file := resolvconf.Parse(state.ResolvConf.Data)
	names := file.Nameservers()
	ours := hostdns.IsOurs(state.ResolvConf.Data)
	here := func(addr netip.Addr) bool { return state.Net.IsLocal(addr) && !addr.IsLoopback() }
	switch {
	case len(names) == 0 && !state.PointsResolved():
		return []Finding{fail(resolvConf+" has no nameserver: libc asks 127.0.0.1", "origin-dns-dispatcher plan shows why")}
	case ours && errors.Is(s.StatusErr, control.ErrNotRunning):
		return []Finding{fail(resolvConf+" names this node ("+join(names)+"), but node-dns does not answer there", "systemctl start node-dns; or node-dns restore, which restores the original nameservers")}
	case s.Status == nil:
		return nil
	}
	r := s.Status.ResolvConf
	switch {
	case len(r.Pending) > 0: // checkFiles reports it
		return nil
	case state.Config.ResolvConf == nodeconfig.ResolvConfNone, r.DropIn != "", ours && r.Hold == "":
		return nil
	case r.Hold != "":
		return []Finding{s.held()}
	case !slices.ContainsFunc(names, here):
		return []Finding{warn(resolvConf+" does not name this node, but "+join(names)+": this host's own programs do not use node-dns", "origin-dns-dispatcher plan shows why")}
	}
	return nil
}

// leftAlone is the prefix of the daemon's report that another tool keeps overwriting resolv.conf.
const leftAlone = resolvConf + " is left alone: "

// held reports a resolv.conf that node-dns does not write. If the daemon reports a problem, another
// tool writes the file.
func (s Snapshot) held() Finding {
	what := leftAlone + s.Status.ResolvConf.Hold
	if slices.ContainsFunc(s.Status.Problems, func(p string) bool { return strings.HasPrefix(p, leftAlone) }) {
		return fail(what, "stop the tool that writes it, then run origin-dns-dispatcher apply as root to point the file at this node")
	}
	return warn(what, "origin-dns-dispatcher plan shows the details")
}

// checkFiles checks whether the host's files have the content that the daemon wants.
func checkFiles(s Snapshot) []Finding {
	if s.Status == nil || len(s.Status.ResolvConf.Pending) == 0 {
		return nil
	}
	return []Finding{fail("the host's files are not up to date: "+strings.Join(s.Status.ResolvConf.Pending, " "), "origin-dns-dispatcher plan shows why; origin-dns-dispatcher apply, as root, writes them")}
}

// resolvConfWords describes a correct file.
func (s Snapshot) resolvConfWords() string {
	state := s.Host.State
	words := []string{"regular file"}
	if state.ResolvConf.Link != "" {
		words[0] = "link to " + state.ResolvConf.Link
	}
	if kind := procfs.SELinuxType(s.ResolvConf.Label); kind != "" {
		words = append(words, "label "+kind)
	}
	file := resolvconf.Parse(state.ResolvConf.Data)
	owner := "not managed by node-dns"
	if hostdns.IsOurs(state.ResolvConf.Data) {
		owner = "managed by node-dns"
	}
	words = append(words, owner, "nameserver "+orNone(join(file.Nameservers())), count(len(file.Search()), "search domain"))
	return resolvConf + ": " + strings.Join(words, ", ")
}

func join(addrs []netip.Addr) string { return strings.Join(control.Texts(addrs), " ") }

func orNone(text string) string { return cmp.Or(text, "none") }

// checkResolved checks for systemd-resolved's stub. Pods cannot reach 127.0.0.53, and a resolv.conf
// that points to it bypasses node-dns.
func checkResolved(s Snapshot) []Finding {
	unit, asked := s.Units[resolvedUnit]
	state := s.Host.State
	stub := leadsToStub(state.ResolvConf.Link, state.ResolvConf.Data)
	active := unit.IsActive()
	switch {
	case stub && asked && !active:
		return []Finding{fail("/etc/resolv.conf points to systemd-resolved, which is not running", "systemctl start systemd-resolved; or node-dns, which then manages the file")}
	case stub && state.PointsResolved():
		return fine("programs ask systemd-resolved's stub, which asks this node")
	case stub && s.Status != nil && s.Status.ResolvConf.Hold == "":
		return []Finding{warn("/etc/resolv.conf points to systemd-resolved's stub: this host's own programs do not use node-dns", "origin-dns-dispatcher plan shows why; resolvConf: resolved in node-dns.yaml makes systemd-resolved ask this node")}
	case active:
		return fine("systemd-resolved runs, but /etc/resolv.conf does not point to it")
	case stub:
		return fine("/etc/resolv.conf points to systemd-resolved's stub")
	}
	return nil
}

// leadsToStub reports whether libc queries systemd-resolved.
func leadsToStub(link string, text []byte) bool {
	if strings.Contains(link, "/run/systemd/resolve/") && !strings.HasSuffix(link, "/resolve/resolv.conf") {
		return true
	}
	return slices.ContainsFunc(resolvconf.Parse(text).Nameservers(), func(addr netip.Addr) bool {
		return addr.String() == "127.0.0.53" || addr.String() == "127.0.0.54"
	})
}

// checkNSSwitch checks the hosts: line of nsswitch.conf(5), which makes libc query nameservers.
// Without the line, glibc queries them.
func checkNSSwitch(s Snapshot) []Finding {
	const path = "/etc/nsswitch.conf"
	if s.NSSwitch.Err != nil {
		return []Finding{warn(path+" cannot be read: "+s.NSSwitch.Err.Error(), "ls -l "+path)}
	}
	services, given := hostsServices(s.NSSwitch.Data)
	if !given {
		return nil
	}
	line := "hosts: " + strings.Join(services, " ")
	dns, resolve := slices.Index(services, "dns"), slices.Index(services, "resolve")
	active := s.Units[resolvedUnit].IsActive()
	switch {
	case dns < 0 && !(resolve >= 0 && active):
		return []Finding{fail(path+" makes this host's programs ask no nameserver ("+line+")", "add dns after files")}
	case resolve >= 0 && (dns < 0 || resolve < dns) && active && !s.Host.State.PointsResolved():
		return []Finding{warn(path+" makes this host's programs ask systemd-resolved before they use /etc/resolv.conf ("+line+")",
			"resolvConf: resolved in node-dns.yaml makes systemd-resolved ask node-dns; or remove resolve from the line; pods use node-dns in either case")}
	}
	return fine("%s: %s", path, line)
}

// actions are the parts of a line in brackets.
var actions = regexp.MustCompile(`\[[^\]]*(\]|$)`)

// hostsServices returns the services of the hosts database, without the actions in brackets.
func hostsServices(text []byte) (services []string, given bool) {
	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(line, "#")
		database, rest, ok := strings.Cut(line, ":")
		if !ok || strings.TrimSpace(database) != "hosts" {
			continue
		}
		return strings.Fields(actions.ReplaceAllString(rest, " ")), true
	}
	return nil, false
}

// leftBehind maps the name of a snippet to its known author.
var leftBehind = map[string]string{
	"99-origin.conf":     " (openshift-ansible wrote it)",
	"99-cloud-init.conf": " (cloud-init wrote it and may write it again)",
	"90-dns-none.conf":   " (a name used by common guides)",
}

// checkNetworkManagerConf looks for settings that permanently stop NetworkManager from writing
// /etc/resolv.conf. While node-dns runs, its own snippet does that. A setting in /etc leaves the
// node without DNS when node-dns is removed.
func checkNetworkManagerConf(s Snapshot) []Finding {
	if s.NMConfErr != nil {
		return []Finding{warn("NetworkManager's configuration cannot be read: "+firstLine(s.NMConfErr.Error()), "")}
	}
	var found []Finding
	if c := s.NMConf.DNS; c.Value == "none" {
		found = append(found, kept("dns=none", c))
	}
	// With every other value NetworkManager writes the file itself: as a file, as its link, or
	// through resolvconf or netconfig (NetworkManager.conf(5)).
	if c := s.NMConf.RcManager; c.Value == "unmanaged" && c.File != "" {
		found = append(found, kept("rc-manager="+c.Value, c))
	}
	if s.NMConf.Shadow != "" {
		found = append(found, warn(s.NMConf.Shadow+" overrides node-dns's own file of the same name, so NetworkManager also writes /etc/resolv.conf", "rename it"))
	}
	return orFine(found, "NetworkManager's configuration leaves /etc/resolv.conf to node-dns")
}

func kept(setting string, at nm.Setting) Finding {
	return warn(fmt.Sprintf("%s:%d sets %s%s: NetworkManager does not restore /etc/resolv.conf after node-dns is removed", at.File, at.Line, setting, leftBehind[filepath.Base(at.File)]),
		"unless this is intended, remove the setting and run nmcli general reload conf")
}

// checkWriters reports other programs that write /etc/resolv.conf. After a migration, nothing is
// left to be done.
func checkWriters(s Snapshot) []Finding {
	var found []Finding
	left := migrate.NewPlan(s.Host, migrate.Find(s.Host))
	for _, f := range left.Findings {
		switch {
		case f.Origin == "systemd-resolved": // checkResolved reports that
		case f.Origin == "openshift3" && len(s.OldHooks) > 0: // checkOldHook reports it
		case len(left.Steps) == 0 && len(left.Refused) == 0 && len(left.Owner) == 0:
		default:
			found = append(found, warn(f.What, "node-dns migrate shows what it would do about it", oneLine(f.Evidence)...))
		}
	}
	if told := s.Host.OpenresolvTells(); len(told) > 0 {
		found = append(found, warn("openresolv overwrites /etc/resolv.conf when it gets nameservers from "+strings.Join(told, ", "),
			"set resolv_conf=/run/resolvconf/resolv.conf in /etc/resolvconf.conf"))
	}
	return orFine(append(found, s.Writers...), "no other program is known to write /etc/resolv.conf or to serve DNS here")
}

// checkKubelet checks the nameservers that the kubelet passes to pods, as in node-dns explain. They
// must be the site's and not this node, because the cluster's own DNS pods would then forward in a
// loop.
func checkKubelet(s Snapshot) []Finding {
	k := s.Kubelet
	var found []Finding
	for _, fault := range k.Faults {
		found = append(found, warn("the running kubelet uses an invalid file: "+fault, "fix it and restart the kubelet, which reads it only at start"))
	}
	switch {
	case !k.Configured:
		return fine("no kubelet is configured here")
	case k.Path == "": // the kubelet's notation for "none"
		return found
	}
	source := cmp.Or(k.Source, "its default")
	handed := resolvconf.Parse(k.File.Data).Content()
	for _, fault := range s.kubeletChecks().Host(resolvconf.Kubelet{DNS: k.DNS, Host: handed}) {
		level := fail
		if fault.Maybe {
			level = warn
		}
		found = append(found, level(fault.What, fault.Fix, "by "+source))
	}
	return orFine(found, "kubelet's resolvConf=%s (%s): %s", k.Path, source, join(handed.Nameservers))
}

// kubeletChecks returns the inputs for checking the kubelet's resolvConf.
func (s Snapshot) kubeletChecks() resolvconf.Checks {
	k, state, ours := s.Kubelet, s.Host.State, s.addresses()
	c := resolvconf.Checks{
		HostFile: k.Path, Missing: !k.File.Exists && k.File.Err == nil, Hooks: hostdns.NewPaths("").NodeResolvConf, Writes: s.Host.Plan.WritesForPods(),
		NamesNode: state.NamesNode(),
		Setting:   nodeconfig.ResolvConfSetting(state.Config.IsOpenShift, k.SetBy),
		IsNode: func(addr netip.Addr) bool { // a file of ours names this node, even if its address has changed since
			return state.Net.IsLocal(addr) || slices.Contains(ours, addr) || hostdns.IsOurs(k.File.Data)
		},
	}
	if k.File.Err != nil {
		c.Unread = k.File.Err.Error()
	}
	c.Originals, c.Uplinks = state.ForPods()
	return c
}

// addresses returns this node's addresses on which node-dns answers.
func (s Snapshot) addresses() []netip.Addr {
	var all []netip.Addr
	for _, at := range s.wanted() {
		all = append(all, at.Addr())
	}
	return all
}
