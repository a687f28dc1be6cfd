package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/node-dns/node-dns/internal/dns/nameserver"
	"github.com/node-dns/node-dns/internal/dnsmasqconf"
	"github.com/node-dns/node-dns/internal/netstate"
	"github.com/node-dns/node-dns/internal/nm"
)

// lookAgain is the interval between looks without a hint. No watch is perfect: a directory did not
// exist when watching began, a bus lost a signal, or no inotify instance is left (128 per user by
// default).
const lookAgain = time.Minute

// watchNetworkManager hints when NetworkManager's DNS configuration changes, even if it raises no
// event for that: a renewal with 1.42, or `nmcli general reload dns-rc`.
func (d *Daemon) watchNetworkManager(ctx context.Context) error {
	return nm.Watch(ctx, d.log, func(reason string) {
		d.view.Metrics.Events.Add(reason)
		d.hint("NetworkManager: " + reason)
	})
}

// watchKernel hints when addresses or default routes change.
func (d *Daemon) watchKernel(ctx context.Context) error {
	return netstate.Watch(ctx, func() { d.hint("kernel: addresses or routes") })
}

// watchLoops probes the upstreams, and hints when others send queries back.
func (d *Daemon) watchLoops(ctx context.Context) error {
	d.loops.Watch(ctx, func() []nameserver.Server { return d.policy().Probed() }, func(before, after map[nameserver.Server]struct{}) {
		d.view.LogLoops(before, after)
		d.hint("loop probe")
	})
	return nil
}

// watchFiles hints when any program changes one of the host's files. It watches their directories,
// because files are replaced by rename, and resolv.conf itself, because its directory does not
// report writes through a bind mount.
func (d *Daemon) watchFiles(ctx context.Context) error {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("watching files: %w", err)
	}
	defer watcher.Close()
	again := time.NewTicker(lookAgain)
	defer again.Stop()
	said := ""
	for {
		files := d.watchedFiles()
		if err := watch(watcher, d.paths.host.ResolvConf, files); err != nil && err.Error() != said {
			said = err.Error()
			d.log.Warn("cannot watch all files; their changes are detected at the next periodic check", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-again.C: // directories that exist now
		case event := <-watcher.Events:
			if name := filepath.Clean(event.Name); (concerns(files, name) || d.isDnsmasqDir(filepath.Dir(name))) && event.Op != fsnotify.Chmod && !d.isInConflict(name) {
				d.hint("file: " + event.Name)
			}
		case err := <-watcher.Errors:
			d.hint("file watch: " + err.Error()) // an overflow: look at everything
		}
	}
}

// concerns reports whether a change of a file may change one of files. The kubelet updates all
// files of a ConfigMap by renaming the directory ..data, through which they are links.
func concerns(files []string, name string) bool {
	return slices.Contains(files, name) || filepath.Base(name) == "..data" && slices.ContainsFunc(files, func(f string) bool {
		return filepath.Dir(f) == filepath.Dir(name)
	})
}

// dnsmasqFiles returns dnsmasq's files, and one path in each of their directories.
func (d *Daemon) dnsmasqFiles() []string {
	usual := dnsmasqconf.DefaultPaths(d.config.Root)
	files := []string{usual.Conf, usual.Hosts}
	if seen := d.view.Host.Load(); seen != nil {
		files = slices.Concat(files, seen.Dnsmasq.Files, seen.Dnsmasq.Others)
		for _, dir := range seen.Dnsmasq.Dirs {
			files = append(files, dir+"/.")
		}
	}
	return files
}

// isDnsmasqDir reports whether any change in a directory may concern dnsmasq's files.
func (d *Daemon) isDnsmasqDir(dir string) bool {
	seen := d.view.Host.Load()
	return seen != nil && slices.Contains(seen.Dnsmasq.Dirs, dir)
}

// isInConflict reports whether a file is left to another program that keeps rewriting it. It is
// then only checked periodically.
func (d *Daemon) isInConflict(name string) bool {
	seen := d.view.Host.Load()
	return name == d.paths.host.ResolvConf && seen != nil && seen.Plan.RewriteLoop
}

func (d *Daemon) watchedFiles() []string {
	host, config := d.paths.host, d.config.Looker.Config
	files := []string{
		host.ResolvConf, host.Upstreams, host.Record, host.NodeResolvConf, host.NetworkManagerConf, host.NetworkManagerList,
		host.ResolvedUplinks, host.DropIn, host.Facts, host.Snippet, host.Kubeconfig,
		config.NodeConfig, config.Bootstrap, config.Kubelet, config.NodeDNS, d.paths.kubeconfig,
		d.paths.terms,
	}
	if d.config.ConfigFile != "" {
		files = append(files, filepath.Clean(d.config.ConfigFile))
	}
	files = append(files, d.dnsmasqFiles()...)
	if seen := d.view.Host.Load(); seen != nil && seen.State.OriginalTarget() != "" {
		files = append(files, seen.State.OriginalTarget())
	}
	if s := d.policy(); s != nil && s.Config.DNSRecursiveResolvConf != "" {
		files = append(files, filepath.Clean(s.Config.DNSRecursiveResolvConf))
	}
	return files
}

// watch adds the file, and the directories of files, that exist and are not watched yet. Missing or
// unreadable ones are left to the periodic looks. The error joins those of the others.
func watch(watcher *fsnotify.Watcher, file string, files []string) error {
	wanted := []string{file}
	for _, file := range files {
		wanted = append(wanted, filepath.Dir(file))
	}
	watched := watcher.WatchList()
	var errs []error
	for _, path := range wanted {
		if slices.Contains(watched, path) {
			continue
		}
		if err := watcher.Add(path); err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, os.ErrPermission) {
			errs = append(errs, fmt.Errorf("watching %s: %w", path, err))
		}
		watched = append(watched, path)
	}
	return errors.Join(errs...)
}
