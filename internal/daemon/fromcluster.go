package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"github.com/node-dns/node-dns/internal/kube/cluster"
	"github.com/node-dns/node-dns/internal/kube/clusterdns"
	"github.com/node-dns/node-dns/internal/policy"
	"github.com/node-dns/node-dns/internal/sys/atomicfile"
)

// maxFromCluster bounds the file, in octets: five objects of the API, which have 1.5 MiB each at most, with their line ends escaped.
const maxFromCluster = 16 << 20

// keptSettings is what the file has.
type keptSettings struct {
	Cluster string              `json:"cluster"`
	Objects []clusterdns.Object `json:"objects"`
}

// loadFromCluster finds what the cluster's DNS was configured to do before the daemon was restarted: until the API answers, the names of a
// stub domain must not go to the site's nameservers.
func (d *Daemon) loadFromCluster() {
	kept, err := readKeptSettings(d.paths.fromCluster)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		d.log.Warn("what the cluster configures of its DNS is not known before the API answers", "file", d.paths.fromCluster, "error", err)
	}
	kept.Objects = slices.DeleteFunc(kept.Objects, func(o clusterdns.Object) bool { return !cluster.IsSetting(o) })
	d.ownDNS.Store(&policy.FromCluster{Settings: cluster.Settings{Objects: kept.Objects, Cluster: kept.Cluster}})
}

func readKeptSettings(path string) (kept keptSettings, err error) {
	switch info, err := os.Lstat(path); {
	case err != nil:
		return kept, err
	case !info.Mode().IsRegular():
		return kept, fmt.Errorf("%s: it is no file: %w", path, fs.ErrInvalid)
	case info.Size() > maxFromCluster:
		return kept, fmt.Errorf("%s: %d bytes: expected %d at most", path, info.Size(), maxFromCluster)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return kept, err
	}
	if err := json.Unmarshal(data, &kept); err != nil {
		return keptSettings{}, fmt.Errorf("%s: %w", path, err)
	}
	return kept, nil
}

// knownSettings are what a new watch begins with. What failed to be watched before may not any more.
func (d *Daemon) knownSettings() cluster.Settings {
	now := d.ownDNS.Load()
	if len(now.Failed) > 0 {
		now = &policy.FromCluster{Settings: cluster.Settings{Objects: now.Objects, Cluster: now.Cluster}}
		d.ownDNS.Store(now)
	}
	return now.Settings
}

// takeFromCluster applies new Settings and has them saved for the next start.
func (d *Daemon) takeFromCluster(settings cluster.Settings) {
	if !d.policy().Config.Resolver.FromCluster {
		return // any more
	}
	d.ownDNS.Store(&policy.FromCluster{Settings: keepGood(d.ownDNS.Load().Objects, settings)})
	select {
	case d.ownDNSChanged <- struct{}{}:
	default:
	}
	d.hint("fromCluster")
}

// keepGood replaces an object with a syntax error by its version in before. CoreDNS and kube-dns also go on with the version that they have. Without that, a
// missing brace would send the names of all stub domains to the site's nameservers.
func keepGood(before []clusterdns.Object, now cluster.Settings) cluster.Settings {
	now.Objects, now.Failed = slices.Clone(now.Objects), slices.Clone(now.Failed)
	for _, bad := range clusterdns.Read(now.Objects, nil).Malformed {
		is := func(o clusterdns.Object) bool {
			return o.Kind == bad.Kind && o.Namespace == bad.Namespace && o.Name == bad.Name
		}
		fault := fmt.Errorf("%s: %s", bad.Where, bad.Text)
		if i := slices.IndexFunc(before, is); i >= 0 {
			now.Objects[slices.IndexFunc(now.Objects, is)] = before[i]
			fault = fmt.Errorf("%w: what it said before stays", fault)
		}
		now.Failed = append(now.Failed, fault)
	}
	return now
}

// keepFromCluster writes what is known of the cluster's DNS each time that this changes, until ctx ends. It is apart from the watching, which a slow
// disk does not hold up.
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
		now := d.ownDNS.Load()
		var data bytes.Buffer
		encoder := json.NewEncoder(&data)
		encoder.SetEscapeHTML(false)
		err := encoder.Encode(keptSettings{now.Cluster, now.Objects})
		if err == nil && data.Len() > maxFromCluster {
			err = fmt.Errorf("%d bytes: expected %d at most", data.Len(), maxFromCluster)
		}
		if err == nil {
			_, err = atomicfile.Writer{}.Write(d.paths.fromCluster, data.Bytes(), 0o600)
		}
		if err != nil {
			d.log.Warn("what the cluster configures of its DNS is not kept for the next start", "error", err)
		}
	}
}

// forgetFromCluster drops the objects and their file when fromCluster is turned off: they are not watched any more.
func (d *Daemon) forgetFromCluster() {
	d.ownDNS.Store(new(policy.FromCluster))
	if err := os.Remove(d.paths.fromCluster); err != nil && !errors.Is(err, os.ErrNotExist) {
		d.log.Warn("what the cluster configures of its DNS is still kept", "error", err)
	}
}
