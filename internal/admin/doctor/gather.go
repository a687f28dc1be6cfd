package doctor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/admin/migrate"
	"github.com/node-dns/node-dns/internal/hostdns"
	"github.com/node-dns/node-dns/internal/nm"
	"github.com/node-dns/node-dns/internal/nodeconfig"
	"github.com/node-dns/node-dns/internal/sys/procfs"
)

const (
	// patience is the timeout for one source, such as the daemon, the API server or a program. They
	// answer within milliseconds or, if they are stopped or stuck, never.
	patience = 3 * time.Second
	// systemPatience is the timeout for systemd and NetworkManager. It leaves time to retry after a
	// missed deadline before the failure is reported.
	systemPatience = 10 * time.Second
	// upstreamPatience is the timeout for one query to an upstream nameserver. A query over UDP is
	// sent twice.
	upstreamPatience = 2 * time.Second
)

// gathering fills a Snapshot from several goroutines.
type gathering struct {
	root, version string
	given         string     // name that the admin asks about; empty if there is none
	mu            sync.Mutex // guards fields that several parts write
	s             Snapshot
	asked         map[string]int // number of names for which each nameserver was queried directly
}

// Gather inspects everything below root and changes nothing. A root other than "/" is a directory
// tree and the daemon that serves it. version is this program's version. given is a name that the
// admin asks about, or empty. Gather returns within a few seconds with the data it could collect,
// even if something hangs.
func Gather(ctx context.Context, root, version, given string) Snapshot {
	g := &gathering{root: filepath.Join("/", root), version: version, given: given}
	g.s.Live, g.s.Now = g.root == "/", time.Now()
	g.each(ctx, g.survey, g.daemon, g.units, g.files, g.host, g.builds)
	g.ports() // reads the whole Snapshot
	g.each(ctx, g.kubelet, g.process, g.selinux, g.commands, g.upstreams, g.api, g.questions)
	slices.Sort(g.s.Unseen)
	return g.s
}

// each runs parts concurrently. They write separate fields or hold the lock.
func (g *gathering) each(ctx context.Context, parts ...func(context.Context)) {
	var all sync.WaitGroup
	for _, part := range parts {
		all.Go(func() { part(ctx) })
	}
	all.Wait()
}

func (g *gathering) unseen(format string, args ...any) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.s.Unseen = append(g.s.Unseen, fmt.Sprintf(format, args...))
}

func (g *gathering) survey(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, systemPatience)
	defer cancel()
	var err error
	if g.s.Host, err = migrate.Survey(ctx, g.root); err != nil && hasSystemd() {
		g.unseen("%v", err)
	}
	for _, problem := range g.s.Host.State.Problems {
		if state := g.s.Host.State; state.ConfigErr == nil || problem != state.ConfigErr.Error() { // checkConfiguration reports that one
			g.unseen("%s", problem)
		}
	}
	for _, problem := range g.s.Host.Filter.Problems {
		g.unseen("%s", problem)
	}
	if g.s.Live && !g.s.Host.Root {
		g.unseen("some sockets, files and credentials are visible only to root")
	}
}

func (g *gathering) daemon(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	status, err := control.FetchStatus(ctx, control.SocketPath(g.root))
	if err != nil {
		g.s.StatusErr = err
		return
	}
	g.s.Status = &status
}

// hasSystemd reports whether systemd is the init system, like sd_booted(3).
func hasSystemd() bool {
	info, err := os.Lstat("/run/systemd/system")
	return err == nil && info.IsDir()
}

// logLines is the number of journal lines to show, at most as many as systemctl status shows.
const logLines = "5"

func (g *gathering) units(ctx context.Context) {
	if !g.s.Live || !hasSystemd() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, systemPatience)
	defer cancel()
	units, err := migrate.ShowUnits(ctx, slices.Concat([]string{daemonUnit, applyPath, managerUnit, dispatcherUnit, resolvedUnit}, synchronisers))
	if err != nil {
		g.unseen("%v", err)
		return
	}
	g.s.Units = units
	g.s.Systemd, _ = output(ctx, "systemctl", "show", "--property=Version", "--value")
	if unit := units[daemonUnit]; unit.Load == "loaded" {
		log, err := output(ctx, "journalctl", "--no-pager", "--quiet", "--unit", daemonUnit, "--lines", logLines)
		if err == nil && log != "" {
			g.s.Log = strings.Split(log, "\n")
		}
	}
}

// files reads everything that has no part of its own.
func (g *gathering) files(context.Context) {
	g.s.ResolvConf = g.resolv()
	g.s.Hooks, g.s.OldHooks = g.programs(hookName), g.programs(oldHookName)
	g.s.NSSwitch = hostdns.ReadFile(g.root, g.at("/etc/nsswitch.conf"))
	g.s.Groups = hostdns.ReadFile(g.root, g.at("/etc/group"))
	g.s.NMConf, g.s.NMConfErr = nm.ReadConf(g.root, "/run/NetworkManager/conf.d/90-node-dns.conf")
	g.s.Storage = g.storage()
	journal, err := migrate.ReadJournal(g.root)
	if err != nil {
		g.unseen("%v", err)
	}
	g.s.Migration = journal
	g.s.Writers = append(g.netconfig(), g.clients()...)
}

func (g *gathering) at(path string) string { return filepath.Join(g.root, path) }

// programs returns the hooks with this name, in order of precedence.
func (g *gathering) programs(name string) []Program {
	var all []Program
	for _, dir := range dispatcherDirs {
		path := filepath.Join(dir, name)
		if _, err := os.Lstat(g.at(path)); err != nil {
			continue
		}
		p := Program{Path: path}
		p.Target, _ = os.Readlink(g.at(path)) // empty if it is not a link
		info, err := os.Stat(g.at(path))
		p.Executable = err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
		all = append(all, p)
	}
	return all
}

// kubelet finds the nameservers that the kubelet passes to pods. The configuration of a running
// kubelet overrides the files that we know.
func (g *gathering) kubelet(context.Context) {
	config := g.s.Host.State.Config
	k := Kubelet{Path: config.KubeletResolvConf, Configured: config.IsOpenShift || g.isFile("/var/lib/kubelet/config.yaml")}
	for _, key := range []string{"resolvConf", "kubeletArguments.resolv-conf"} {
		if source, ok := config.ClusterSources[key]; ok {
			k.Source = fmt.Sprintf("%s %s:%d", key, g.shown(source.File), source.Line)
		}
	}
	for _, addr := range config.DNSIPs {
		if addr.IsUnspecified() {
			addr = g.s.Host.State.Placement().Nameserver
		}
		k.DNS = append(k.DNS, addr)
	}
	if p, ok := procfs.Host(g.root, "kubelet"); ok {
		k.Configured = true
		g.hear(&k, p)
	}
	if k.Path == "" && k.SetBy == "" {
		k.Path = g.at(resolvConf)
	}
	if k.Path != "" {
		k.File = hostdns.ReadNamed(g.root, k.Path)
		k.Path = g.shown(k.Path)
	}
	g.s.Kubelet = k
}

// hear reads the configuration of the running kubelet from its command line and the files named
// there.
func (g *gathering) hear(k *Kubelet, p procfs.Process) {
	files := nodeconfig.KubeletFilesOf(g.root, p)
	says := files.Load()
	told := nodeconfig.KubeletToldBy(p.PID, nodeconfig.KubeletFlagsOf(p), files, says)
	if told.DNSBy != "" {
		k.DNS = told.DNS
	}
	if told.ResolvConfBy != "" {
		if k.Path = told.ResolvConf; k.Path != "" {
			k.Path = g.at(k.Path)
		}
		if k.Source, k.SetBy = told.ResolvConfBy, told.SetBy; k.Source == nodeconfig.ByDefault {
			k.Source = ""
		}
	}
	if says == nil {
		return
	}
	for _, problem := range says.Problems {
		known := g.s.Host.State.Config.Facts
		switch isKnown := known != nil && known.File == problem.File; {
		case !problem.IsUnseen():
			k.Faults = append(k.Faults, problem.String())
		case !isKnown || errors.Is(problem.Err, nodeconfig.ErrElsewhere):
			g.unseen("the configuration of the kubelet (pid %d) is only partly known: %s", p.PID, problem)
		}
	}
}

// ports finds the processes that use node-dns's ports other than 53.
func (g *gathering) ports() {
	if !g.s.Live {
		return
	}
	var ports []uint16
	for _, at := range g.s.wanted() {
		if !slices.Contains(ports, at.Port()) {
			ports = append(ports, at.Port())
		}
	}
	more, err := migrate.MoreHolders(ports)
	if err != nil {
		g.unseen("%v", err)
		return
	}
	g.s.Host.Holders = append(g.s.Host.Holders, more...)
}

func (g *gathering) isFile(path string) bool {
	_, err := os.Lstat(g.at(path))
	return err == nil
}

// shown returns path as seen on the host, without g.root.
func (g *gathering) shown(path string) string {
	if rel, err := filepath.Rel(g.root, path); err == nil && !strings.HasPrefix(rel, "..") {
		return "/" + rel
	}
	return path
}
