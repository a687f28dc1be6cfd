package daemon

import (
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/node-dns/node-dns/internal/dns/zone"
	"github.com/node-dns/node-dns/internal/dnsmasqconf"
	"github.com/node-dns/node-dns/internal/kube/cluster"
	"github.com/node-dns/node-dns/internal/policy"
)

// watchCluster watches the API as configured, and starts again when the configuration changes.
func (d *Daemon) watchCluster(ctx context.Context) error {
	for ctx.Err() == nil {
		if err := d.watchAPI(ctx, d.policy().API); err != nil {
			return err
		}
	}
	return nil
}

// watchAPI watches until ctx ends or the configuration changes. It fails if the watch fails.
func (d *Daemon) watchAPI(ctx context.Context, wanted policy.API) error {
	ctx, cancel := context.WithCancel(ctx)
	failed := make(chan error, 1)
	var group sync.WaitGroup
	defer group.Wait()
	defer cancel()
	if !d.policy().Config.Resolver.FromCluster {
		d.forgetFromCluster()
	}
	if wanted != (policy.API{}) {
		watcher := cluster.New(d.clusterConfig(wanted))
		d.view.Watcher.Store(watcher)
		defer d.view.Watcher.Store(nil)
		group.Go(func() {
			if err := watcher.Run(ctx); err != nil {
				failed <- err
			}
		})
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-failed:
			return err
		case <-d.rewatch:
			if d.policy().API != wanted {
				return nil
			}
		}
	}
}

func (d *Daemon) clusterConfig(wanted policy.API) cluster.Config {
	config := cluster.Config{
		Kubeconfig: wanted.Kubeconfig, Features: wanted.Features, NodeName: wanted.Node, Version: d.config.Version,
		Publish:    func(s *zone.Snapshot) { d.publish(wanted.Kubeconfig, s) },
		Unready:    func(reason error) { d.resolver.Unready(wanted.Kubeconfig, reason) },
		Programmed: d.view.Metrics.Programming.Add, Requested: d.view.Metrics.Requested.Add,
		Log: d.log, Panics: &d.panics,
		Lookup: d.addrsOfAPI, Settings: d.takeFromCluster, KnownSettings: d.knownSettings(),
	}
	if err := os.MkdirAll(filepath.Dir(d.paths.snapshot), 0o755); err != nil {
		d.log.Warn("cannot save the cluster state for the next start", "error", err)
	} else {
		config.SnapshotFile, config.SnapshotMaxAge = d.paths.snapshot, d.policy().Config.Resolver.SnapshotMaxAge
	}
	return config
}

// publish answers from s. The first snapshot allows interception, which the follower requests, and
// has the addresses that Cilium redirects. A later one may have another DNS Service, or other DNS
// pods for the routes that use them.
func (d *Daemon) publish(kubeconfig string, s *zone.Snapshot) {
	before := d.resolver.Known()
	d.resolver.Publish(kubeconfig, s)
	wanted := d.policy().Config.Intercept
	switch {
	case !wanted.Cilium && wanted.IsNone():
	case before == nil:
		d.hint("the cluster is known")
	case !slices.Equal(policy.NewDNSService(before).Addrs, d.dnsService().Addrs):
		d.hint("the cluster's DNS Service has changed")
	case d.policy().HasOtherPods(d.resolver.Known()):
		d.hint("the cluster's DNS pods have changed")
	}
}

// dnsService returns the cluster's DNS Service, as far as it is known.
func (d *Daemon) dnsService() policy.DNSService {
	if d.resolver == nil {
		return policy.DNSService{}
	}
	return policy.NewDNSService(d.resolver.Known())
}

// addrsOfAPI implements cluster.Config.Lookup.
func (d *Daemon) addrsOfAPI(ctx context.Context, host string) ([]netip.Addr, error) {
	return d.resolver.HostAddrs(ctx, dnsmasqconf.DefaultPaths(d.config.Root).Hosts, host)
}
