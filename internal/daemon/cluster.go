package daemon

import (
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/dns/zone"
	"github.com/node-dns/node-dns/internal/kube/cluster"
	"github.com/node-dns/node-dns/internal/policy"
)

// zoneConfig is the policy's, with who else is asked.
func (d *Daemon) zoneConfig(s *serving) zone.Config {
	z := s.Zone()
	z.Next = d.local(dnsserver.HandlerFunc(d.serveUpstream))
	return z
}

// setResolver makes the resolver for what is served next.
func (d *Daemon) setResolver(next *serving) {
	var resolver *zone.Resolver
	if next.API != (policy.API{}) {
		resolver = zone.NewResolver(d.zoneConfig(next))
	}
	d.names.replace(resolver, next.API.Kubeconfig)
	select {
	case d.rewatch <- struct{}{}:
	default:
	}
}

// clusterPatience is how long the cluster's DNS servers may take where a stale answer is known. They go away with the API:
// a client that asks for five names of its search list does not wait five times for servers that are dead.
const clusterPatience = 500 * time.Millisecond

// serveCluster answers for the cluster's names from the API. Before it has been read, and while only an earlier run's
// state of it is known, the cluster's own DNS servers know better, where there are any.
func (d *Daemon) serveCluster(ctx context.Context, q *dnsserver.Query) (*dns.Msg, error) {
	s := d.serving.Load()
	if len(s.Overrides) > 0 && s.IsOverridden(q.Domain()) {
		return d.serveCached(ctx, q)
	}
	hasServers := len(s.ClusterDNS) > 0 && !s.IsOfClusterSet(q.Domain()) // they may not know that domain
	if !hasServers {
		d.names.await(ctx)
	}
	resolver := d.names.resolver.Load()
	if resolver == nil && !hasServers { // for a moment, when the API ceases to be watched: no upstream is to see the name
		return nil, &dnsserver.ExtendedError{Code: dns.ExtendedErrorCodeNotReady, Text: errNotWatched.Error()}
	}
	if resolver == nil {
		return d.serveCached(ctx, q)
	}
	snapshot := resolver.Snapshot()
	switch {
	case !hasServers:
	case snapshot == nil:
		return d.serveCached(ctx, q)
	case snapshot.IsStale():
		limited, cancel := context.WithTimeout(ctx, clusterPatience)
		defer cancel()
		if m, err := d.serveCached(limited, q); err == nil && m != nil && m.Rcode != dns.RcodeServerFailure {
			return m, nil
		}
	}
	q.Origin = dnsserver.OriginCluster
	return resolver.ServeDNS(ctx, q)
}

// watchCluster watches the API as the configuration says, from anew whenever it says something else.
func (d *Daemon) watchCluster(ctx context.Context) error {
	for ctx.Err() == nil {
		if err := d.watchAPI(ctx, d.serving.Load().API); err != nil {
			return err
		}
	}
	return nil
}

// watchAPI watches until ctx ends or the configuration says something else. It fails where the watching does.
func (d *Daemon) watchAPI(ctx context.Context, wanted policy.API) error {
	ctx, cancel := context.WithCancel(ctx)
	failed := make(chan error, 1)
	var group sync.WaitGroup
	defer group.Wait()
	defer cancel()
	if !d.serving.Load().Config.Resolver.FromCluster {
		d.forgetFromCluster()
	}
	if wanted != (policy.API{}) {
		watcher := cluster.New(d.clusterConfig(wanted))
		d.names.watcher.Store(watcher)
		defer d.names.watcher.Store(nil)
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
			if d.serving.Load().API != wanted {
				return nil
			}
		}
	}
}

func (d *Daemon) clusterConfig(wanted policy.API) cluster.Config {
	config := cluster.Config{
		Kubeconfig: wanted.Kubeconfig, Features: wanted.Features, NodeName: wanted.Node, Version: d.config.Version,
		Publish:    func(s *zone.Snapshot) { d.names.publish(wanted.Kubeconfig, s) },
		Unready:    func(reason error) { d.names.unready(wanted.Kubeconfig, reason) },
		Programmed: d.metrics.programming.add, Requested: d.metrics.requested.add,
		Log: d.log, Panics: &d.panics,
		Lookup: d.addrsOf, Settings: d.takeFromCluster, KnownSettings: d.knownSettings(),
	}
	if err := os.MkdirAll(filepath.Dir(d.paths.snapshot), 0o755); err != nil {
		d.log.Warn("the cluster's state is not kept for the next start", "error", err)
	} else {
		config.SnapshotFile, config.SnapshotMaxAge = d.paths.snapshot, d.serving.Load().Config.Resolver.SnapshotMaxAge
	}
	return config
}

// searchOf is the search list of a client that is a pod of this node, for autopath.
func (d *Daemon) searchOf(client netip.Addr) []dnsname.Name {
	return d.serving.Load().Search.Of(d.podNamespace(client))
}

// podNamespace is the namespace of a client that is a pod of this node and has its usual search list; "" for others, and
// where autopath is off.
func (d *Daemon) podNamespace(client netip.Addr) string {
	snapshot := d.names.known()
	if snapshot == nil {
		return ""
	}
	namespace, s := snapshot.SearchNamespace(client), d.serving.Load()
	if namespace == "" || s.Net.IsLocal(client) || d.autopathOff(s) != "" {
		return ""
	}
	return namespace
}
