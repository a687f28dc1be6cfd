package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/node-dns/node-dns/internal/kube/cluster"
	"github.com/node-dns/node-dns/internal/policy"
	"github.com/node-dns/node-dns/internal/sys/supervise"
)

// loadFromCluster loads the cluster's DNS configuration of an earlier run. Until the API answers,
// the names of a stub domain must not go to the site's nameservers.
func (d *Daemon) loadFromCluster() {
	kept, err := cluster.LoadSettings(d.paths.fromCluster)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		d.log.Warn("cannot load the saved settings of the cluster's DNS; waiting for the API", "file", d.paths.fromCluster, "error", err)
	}
	d.ownDNS.Store(&policy.FromCluster{Settings: kept})
}

// knownSettings returns the initial settings of a new watch, without the failures of the previous
// one.
func (d *Daemon) knownSettings() cluster.Settings {
	now := d.ownDNS.Load()
	if len(now.Failed) > 0 {
		now = &policy.FromCluster{Settings: cluster.Settings{Objects: now.Objects, Cluster: now.Cluster}}
		d.ownDNS.Store(now)
	}
	return now.Settings
}

// takeFromCluster applies new Settings and queues them for saving.
func (d *Daemon) takeFromCluster(settings cluster.Settings) {
	if !d.policy().Config.Resolver.FromCluster {
		return // no longer wanted
	}
	d.ownDNS.Store(&policy.FromCluster{Settings: settings.KeepGood(d.ownDNS.Load().Objects)})
	supervise.Wake(d.ownDNSChanged)
	d.hint("fromCluster")
}

// keepFromCluster saves the cluster's DNS configuration after each change, until ctx ends. It is a
// separate task, so that a slow disk does not delay the watch. If saving fails, the task fails, and
// its next run tries again.
func (d *Daemon) keepFromCluster(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-d.ownDNSChanged:
		}
		if !d.policy().Config.Resolver.FromCluster {
			continue
		}
		if err := d.ownDNS.Load().Save(d.paths.fromCluster); err != nil {
			supervise.Wake(d.ownDNSChanged)
			return fmt.Errorf("saving the settings of the cluster's DNS for the next start: %w", err)
		}
	}
}

// forgetFromCluster drops the objects and their file when fromCluster is turned off.
func (d *Daemon) forgetFromCluster() {
	d.ownDNS.Store(new(policy.FromCluster))
	if err := os.Remove(d.paths.fromCluster); err != nil && !errors.Is(err, os.ErrNotExist) {
		d.log.Warn("cannot remove the saved settings of the cluster's DNS", "error", err)
	}
}
