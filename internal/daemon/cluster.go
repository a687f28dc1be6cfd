package daemon

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/cluster"
	"github.com/node-dns/node-dns/internal/dnsname"
	"github.com/node-dns/node-dns/internal/dnsserver"
	"github.com/node-dns/node-dns/internal/nodeconfig"
	"github.com/node-dns/node-dns/internal/zone"
)

// api says how the Kubernetes API is watched. The zero api: it is not.
type api struct {
	kubeconfig string
	node       string
	features   cluster.Features
}

// newAPI decides whether the API is watched. kubeconfig is the usual one, "" where there is none.
func newAPI(config nodeconfig.Config, kubeconfig, hostname string) api {
	r := config.Resolver
	switch {
	case r.Off || config.ClusterDomain.IsZero():
		return api{}
	case r.Kubeconfig != "":
		kubeconfig = r.Kubeconfig
	case config.MasterKubeConfig != "":
		kubeconfig = config.MasterKubeConfig
	}
	if kubeconfig == "" {
		return api{}
	}
	node := r.NodeName
	if node == "" {
		node = strings.ToLower(hostname)
	}
	return api{kubeconfig, node, cluster.Features{
		NodePods: r.Autopath,
		AllPods:  r.PodNames == nodeconfig.PodsVerified,
		// Each query for a ClusterIP service needs its endpoints then, and only so many are fetched at a time.
		AllSlices: r.IgnoreEmptyService,
	}}
}

// usualKubeconfig is the one that is used where the configuration names none; "" while it does not exist.
func (d *Daemon) usualKubeconfig() string {
	if _, err := os.Stat(d.paths.kubeconfig); errors.Is(err, os.ErrNotExist) {
		return ""
	}
	return d.paths.kubeconfig
}

// keptKubeconfig is usualKubeconfig, but for one that has vanished while the API is watched with it: it is waited for as
// one that the configuration names, and names are answered meanwhile.
func (d *Daemon) keptKubeconfig() string {
	if d.serving.Load().api.kubeconfig == d.paths.kubeconfig {
		return d.paths.kubeconfig
	}
	return d.usualKubeconfig()
}

// goneKubeconfig is the kubeconfig that the cluster was read with, when that does not exist any more; "" otherwise.
func (d *Daemon) goneKubeconfig() string {
	if d.serving.Load() == nil || d.names.known() == nil {
		return ""
	}
	path := d.serving.Load().api.kubeconfig
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		return ""
	}
	return path
}

// zoneConfig says how cluster names are answered; who else is asked is the daemon's.
func zoneConfig(config nodeconfig.Config, nodeIP netip.Addr) zone.Config {
	r := config.Resolver
	z := zone.Config{
		Domains:            []dnsname.Name{config.ClusterDomain},
		EndpointPodNames:   r.EndpointPodNames,
		IgnoreEmptyService: r.IgnoreEmptyService,
		Zonal:              r.ZonalNames,
		Namespaces:         r.Namespaces,
		TTL:                r.TTL,
		NegativeTTL:        r.NegativeTTL,
		ServiceCIDRs:       config.ServiceCIDRs,
		PodCIDRs:           config.PodCIDRs,
	}
	if config.ClusterProfile() == nodeconfig.OpenShift {
		z.Profile = zone.OpenShift
	}
	switch r.PodNames {
	case nodeconfig.PodsVerified:
		z.PodNames = zone.PodsVerified
	case nodeconfig.PodsDisabled:
		z.PodNames = zone.PodsDisabled
	}
	if nodeIP.IsValid() {
		z.Nameservers = []netip.Addr{nodeIP}
	}
	return z
}

// clusterNames holds the resolver of the cluster's names, and hands it what the API said. The zero value has none.
type clusterNames struct {
	resolver atomic.Pointer[zone.Resolver] // nil: the API is not watched
	watcher  atomic.Pointer[cluster.Watcher]

	mu       sync.Mutex // guards what follows, and that the resolver has it
	of       string     // the kubeconfig of the cluster that is spoken of
	snapshot *zone.Snapshot
	reason   error // why there is no snapshot; nil: nobody said
}

// replace has r answer from now on, by what is known of the cluster; nil: nobody does. Under another kubeconfig that is
// another cluster's, and forgotten.
func (c *clusterNames) replace(r *zone.Resolver, kubeconfig string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of != kubeconfig {
		c.of, c.snapshot, c.reason = kubeconfig, nil, nil
	}
	if r != nil && c.snapshot != nil {
		r.Set(c.snapshot)
	}
	if r != nil && c.reason != nil {
		r.Unready(c.reason)
	}
	c.resolver.Store(r)
}

// publish takes what the watcher of that kubeconfig knows. One that has been replaced may still be at work.
func (c *clusterNames) publish(kubeconfig string, s *zone.Snapshot) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of != kubeconfig {
		return
	}
	c.snapshot = s
	if r := c.resolver.Load(); r != nil {
		r.Set(s)
	}
}

func (c *clusterNames) unready(kubeconfig string, reason error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of != kubeconfig {
		return
	}
	c.reason = reason
	if r := c.resolver.Load(); r != nil {
		r.Unready(reason)
	}
}

// known is what answers are made from; nil: nothing is known of the cluster.
func (c *clusterNames) known() *zone.Snapshot {
	if r := c.resolver.Load(); r != nil {
		return r.Snapshot()
	}
	return nil
}

var errNotWatched = errors.New("the Kubernetes API is not watched")

// Of implements zone.Endpoints.
func (c *clusterNames) Of(ctx context.Context, service zone.Key) ([]*zone.Slice, error) {
	if w := c.watcher.Load(); w != nil {
		return w.Of(ctx, service)
	}
	return nil, errNotWatched
}

// At implements zone.Endpoints.
func (c *clusterNames) At(ctx context.Context, addr netip.Addr) ([]*zone.Slice, error) {
	if w := c.watcher.Load(); w != nil {
		return w.At(ctx, addr)
	}
	return nil, errNotWatched
}

// zoneConfig is the function of that name, with who else is asked.
func (d *Daemon) zoneConfig(s *serving) zone.Config {
	z := zoneConfig(s.config, s.nodeIP)
	z.Endpoints, z.Next = &d.names, d.local(dnsserver.HandlerFunc(d.serveCached))
	return z
}

// setResolver makes the resolver for what is served next.
func (d *Daemon) setResolver(next *serving) {
	var resolver *zone.Resolver
	if next.api != (api{}) {
		resolver = zone.NewResolver(d.zoneConfig(next))
	}
	d.names.replace(resolver, next.api.kubeconfig)
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
	resolver := d.names.resolver.Load()
	hasServers := len(d.serving.Load().clusterDNS) > 0
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
	return resolver.ServeDNS(ctx, q)
}

// watchCluster watches the API as the configuration says, from anew whenever it says something else.
func (d *Daemon) watchCluster(ctx context.Context) error {
	for ctx.Err() == nil {
		d.watchAPI(ctx, d.serving.Load().api)
	}
	return nil
}

// watchAPI watches until ctx ends or the configuration says something else.
func (d *Daemon) watchAPI(ctx context.Context, wanted api) {
	ctx, cancel := context.WithCancel(ctx)
	var group sync.WaitGroup
	defer group.Wait()
	defer cancel()
	if wanted != (api{}) {
		watcher := cluster.New(d.clusterConfig(wanted))
		d.names.watcher.Store(watcher)
		defer d.names.watcher.Store(nil)
		group.Go(func() {
			if err := watcher.Run(ctx); err != nil {
				d.log.Error("watching the Kubernetes API", "error", err)
			}
		})
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.rewatch:
			if d.serving.Load().api != wanted {
				return
			}
		}
	}
}

func (d *Daemon) clusterConfig(wanted api) cluster.Config {
	config := cluster.Config{
		Kubeconfig: wanted.kubeconfig, Features: wanted.features, NodeName: wanted.node, Version: d.config.Version,
		Publish: func(s *zone.Snapshot) { d.names.publish(wanted.kubeconfig, s) },
		Unready: func(reason error) { d.names.unready(wanted.kubeconfig, reason) },
		Log:     d.log,
	}
	if err := os.MkdirAll(filepath.Dir(d.paths.snapshot), 0o755); err != nil {
		d.log.Warn("the cluster's state is not kept for the next start", "error", err)
	} else {
		config.SnapshotFile = d.paths.snapshot
	}
	return config
}

// searchOf is the search list of a client that is a pod of this node, for autopath.
func (d *Daemon) searchOf(client netip.Addr) []dnsname.Name {
	return d.serving.Load().search.of(d.podNamespace(client))
}

// podNamespace is the namespace of a client that is a pod of this node and has its usual search list; "" for others, and
// where autopath is off.
func (d *Daemon) podNamespace(client netip.Addr) string {
	snapshot := d.names.known()
	if snapshot == nil {
		return ""
	}
	namespace, s := snapshot.SearchNamespace(client), d.serving.Load()
	if namespace == "" || s.net.IsLocal(client) || d.autopathOff(s) != "" {
		return ""
	}
	return namespace
}

// searchLists are the search lists that the kubelet gives to pods with dnsPolicy ClusterFirst: the cluster's domains from
// the pod's namespace upward, then those of the kubelet's resolv.conf. It is safe for concurrent use.
type searchLists struct {
	domain dnsname.Name
	host   []dnsname.Name
	limits searchLimits
	lists  sync.Map // of []dnsname.Name, by namespace: as many as have had pods on this node
}

// searchLimits are what a kubelet bounds a pod's list by: domains, and characters with the blanks between them. It drops
// the last ones. Kubernetes before 1.26, without ExpandedDNSConfig, has the limits that old C libraries had.
type searchLimits struct{ domains, chars int }

func newSearchLists(config nodeconfig.Config, host []dnsname.Name) *searchLists {
	limits := searchLimits{32, 2048}
	if config.IsOpenShift {
		limits = searchLimits{6, 256}
	}
	return &searchLists{domain: config.ClusterDomain, host: host, limits: limits}
}

// of is the list of a namespace's pods; "" is no namespace.
func (l *searchLists) of(namespace string) []dnsname.Name {
	if namespace == "" {
		return nil
	}
	if list, ok := l.lists.Load(namespace); ok {
		return list.([]dnsname.Name)
	}
	list := l.made(namespace)
	l.lists.Store(namespace, list)
	return list
}

func (l *searchLists) made(namespace string) []dnsname.Name {
	var list []dnsname.Name
	for _, prefix := range []string{namespace + ".svc.", "svc.", ""} {
		name, err := dnsname.Parse(prefix + l.domain.String())
		if err != nil {
			return nil // too long for a name: no pod can have it
		}
		list = append(list, name)
	}
	for _, name := range l.host {
		if !slices.Contains(list, name) { // the kubelet leaves out what is there twice
			list = append(list, name)
		}
	}
	return l.limits.cut(list)
}

func (l searchLimits) cut(list []dnsname.Name) []dnsname.Name {
	chars := -1 // no blank before the first
	for i, name := range list {
		// A name's text ends in a dot that resolv.conf's has not: with it a domain is as long as with a blank.
		if chars += len(name.String()); i == l.domains || chars > l.chars {
			return list[:i]
		}
	}
	return list
}
