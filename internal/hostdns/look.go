package hostdns

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/node-dns/node-dns/internal/netstate"
	"github.com/node-dns/node-dns/internal/nm"
	"github.com/node-dns/node-dns/internal/nodeconfig"
)

// Looker fills a State. Tests and the demo replace its fields. The zero value reads the host
// itself.
type Looker struct {
	Paths Paths
	// Config are the configuration files. The zero value means the default ones below Paths.Root.
	Config nodeconfig.Paths
	// NetworkManager reads NetworkManager's state. nil uses the system bus.
	NetworkManager func(ctx context.Context) (nm.Snapshot, error)
	// Net reads the kernel's addresses and default routes. nil uses netlink.
	Net func(ctx context.Context) (netstate.State, error)
	// Progress records what is being read; nil disables it.
	Progress *Progress
	// Memory is for a process that looks repeatedly. Each look then asks NetworkManager once, and a
	// missed deadline is tolerated as Memory says. nil makes a look retry by itself and report a
	// missed deadline.
	Memory *Memory
}

// Look reads everything once. It never fails: what it cannot read is missing from the State and
// listed in Problems, because a host of which only half is known still needs correct files.
func (l Looker) Look(ctx context.Context, event nm.Event) State {
	s := State{Paths: l.Paths, Event: event}
	l.Progress.is("asking NetworkManager")
	s.lookAtNetworkManager(ctx, l)
	l.Progress.is("reading NetworkManager's configuration")
	s.lookAtNetworkManagerConf(l)
	l.Progress.is("asking the kernel")
	s.lookAtKernel(ctx, l.Net)
	if s.Paths.Root == "/" && os.Geteuid() == 0 { // the daemon keeps that of its start (ProtectHostname=)
		s.HostName, _ = os.Hostname() // "" if unknown
	}
	l.Progress.is("reading the configuration")
	s.lookAtConfig(l.configPaths())
	l.Progress.is("reading systemd-resolved's configuration")
	s.lookAtResolvedConf()
	l.Progress.is("reading the daemon's credentials")
	s.lookAtHandover(l.configPaths())
	s.HasCluster = slices.ContainsFunc([]string{l.configPaths().Kubeconfig, s.Paths.Kubeconfig, filepath.Join(s.Paths.Cache, "cluster.snapshot")}, mayExist)
	s.lookAtFiles(l.Progress)
	s.lookForDeaf()
	return s
}

// OriginalTarget returns the file that the saved original points to, or "" if that is not a link.
// The program that made the link keeps writing that file.
func (s *State) OriginalTarget() string {
	if s.Original.Link == "" {
		return ""
	}
	return linkTarget(s.Paths.Root, filepath.Dir(s.Paths.ResolvConf), s.Original.Link)
}

// Reread returns the State with the files as they are now. The answers of NetworkManager and the
// kernel and the configuration are unchanged. Problems lists only those of the files.
func (s State) Reread() State {
	s.Problems = nil
	s.lookAtFiles(nil)
	return s
}

func (s *State) problem(format string, args ...any) {
	s.Problems = append(s.Problems, fmt.Sprintf(format, args...))
}

// lookAtNetworkManagerConf reads NetworkManager's configuration apart from our snippet, even if
// NetworkManager does not run. It skips roots other than "/", which the host's NetworkManager does
// not read.
func (s *State) lookAtNetworkManagerConf(l Looker) {
	if l.NetworkManager == nil && s.Paths.Root != "/" {
		return
	}
	conf, err := nm.ReadConf(s.Paths.Root, s.Paths.host(s.Paths.Snippet))
	switch {
	case err == nil:
		s.NetworkManagerSays = &conf
	case !errors.Is(err, fs.ErrPermission): // the hook may read what the daemon may not
		s.problem("%v", err)
	}
}

func (s *State) lookAtKernel(ctx context.Context, read func(context.Context) (netstate.State, error)) {
	if read == nil {
		read = netstate.Read
	}
	if s.Net, s.NetErr = read(ctx); s.NetErr != nil {
		s.problem("%v", s.NetErr)
	}
}

func (l Looker) configPaths() nodeconfig.Paths {
	if l.Config == (nodeconfig.Paths{}) {
		return nodeconfig.DefaultPaths(l.Paths.Root)
	}
	return l.Config
}

func (s *State) lookAtConfig(paths nodeconfig.Paths) {
	s.Config, s.ConfigErr = nodeconfig.Load(paths)
	if s.ConfigErr != nil {
		s.problem("%v", s.ConfigErr)
	}
}

func (s *State) lookAtFiles(progress *Progress) {
	for _, f := range []struct {
		path string
		into *File
	}{
		{s.Paths.ResolvConf, &s.ResolvConf},
		{s.Paths.NetworkManagerConf, &s.NetworkManagerConf},
		{s.Paths.NetworkManagerList, &s.NetworkManagerList},
		{s.Paths.ResolvedUplinks, &s.ResolvedUplinks},
		{s.Paths.Upstreams, &s.Upstreams},
		{s.Paths.NodeResolvConf, &s.NodeResolvConf},
		{s.Paths.Snippet, &s.Snippet},
		{s.Paths.DropIn, &s.DropIn},
		{s.Paths.Original, &s.Original},
		{s.Paths.Record, &s.Record},
		{s.Paths.Facts, &s.Facts},
		{s.Paths.Rewrites, &s.Rewrites},
	} {
		progress.is("reading %s", f.path)
		dir := filepath.Dir(f.path)
		if f.path == s.Paths.Original {
			dir = filepath.Dir(s.Paths.ResolvConf) // a saved link points where it did in its old place
		}
		*f.into = readFileFrom(s.Paths.Root, f.path, dir)
		if f.into.Err != nil {
			s.problem("reading %s: %v", s.Paths.host(f.path), f.into.Err)
		}
	}
	s.IsMounted = isMountPoint(s.Paths.ResolvConf)
	s.parsed = newKnown(s.Upstreams, s.Record)
	s.LacksWayBack = s.Paths.LacksWayBack()
	s.UpstreamsAlone = isAlone(s.Paths.Upstreams) && !s.Paths.dnsmasqReads()
	s.NodeResolvConfAlone = isAlone(s.Paths.NodeResolvConf)
	info, err := os.Stat(filepath.Dir(s.Paths.Upstreams))
	s.HasDnsmasqDir = err == nil && info.IsDir()
}
