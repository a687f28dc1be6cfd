// Package resolve answers queries. The list in order.go is the only place that defines which
// handler answers first.
//
// A query goes through the list from the top. A handler answers it, or calls the rest of the list
// and may modify the result. The fast path walks the same list with an unparsed query and stops at
// the first handler that may affect the answer; then ServeDNS answers.
//
// Trials asks end-to-end questions, and Loops finds upstreams that send queries back.
package resolve

import (
	"context"
	"errors"
	"net/netip"
	"slices"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/cache"
	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/dns/dnswire"
	"github.com/node-dns/node-dns/internal/dns/forward"
	"github.com/node-dns/node-dns/internal/dns/zone"
	"github.com/node-dns/node-dns/internal/policy"
	"github.com/node-dns/node-dns/internal/sys/journal"
)

var _ dnsserver.Handler = (*Resolver)(nil)

// New returns a Resolver with the given Policy. It must be closed with Close.
func New(c Config, p *policy.Policy) *Resolver {
	r := &Resolver{config: c, order: order[:]}
	r.walks.New = func() any { return new(walk) }
	r.state.Store(&state{Policy: p})
	asking := c.Forward
	asking.Answered, asking.Ignore = r.answered, r.ignore
	asking.IsOwn = func(addr netip.Addr) bool { return r.Policy().Net.IsLocal(addr) }
	r.forward = forward.New(asking)
	r.Apply(p)
	return r
}

// Close ends all queries to upstreams. The Resolver must not be used afterwards.
func (r *Resolver) Close() {
	r.forward.Close()
	r.refreshes.Wait()
}

// GiveUp ends the queries to upstream nameservers. Queries still get answers that need no upstream,
// such as stale ones.
func (r *Resolver) GiveUp() { r.forward.Close() }

// ServeDNS implements dnsserver.Handler.
func (r *Resolver) ServeDNS(ctx context.Context, q *dnsserver.Query) (*dns.Msg, error) {
	s := r.state.Load()
	m, err := rest{r, s, 0, false}.ServeDNS(ctx, q)
	if m != nil && m.Rcode == dns.RcodeNameError && s.IsOfCluster(q.Domain()) {
		r.absent.Add()
	}
	return m, err
}

// ServeOwn answers a query of this process, such as the watchdog's. A panic is logged and counted:
// it is not a hang.
func (r *Resolver) ServeOwn(ctx context.Context, q *dnsserver.Query) (m *dns.Msg, err error) {
	defer func() {
		if p := recover(); p != nil {
			r.config.Panics.Caught(r.config.Log, "task panicked", journal.TaskPanic, p, "task", "watchdog")
		}
	}()
	return r.ServeDNS(ctx, q)
}

// AsPodOf answers a query as for a pod of that namespace, or as for no pod if namespace is "".
// walked reports whether the answer is for a later name of the pod's search list.
func (r *Resolver) AsPodOf(ctx context.Context, namespace string, q *dnsserver.Query) (m *dns.Msg, walked bool, err error) {
	s := r.state.Load()
	var once autopath
	m, err = once.serve(ctx, q, rest{r, s, selfAt, false}, func(netip.Addr) []dnsname.Name {
		if namespace == "" || r.config.NoSearch(s.Policy) != "" {
			return nil
		}
		return s.Search.Of(namespace)
	})
	return m, once.stats().Answered > 0, err
}

// NamespaceOf returns the namespace of a client whose search list is walked, and "" for other
// clients.
func (r *Resolver) NamespaceOf(client netip.Addr) string {
	return r.namespaceOf(r.state.Load(), client)
}

// Addrs returns the addresses of a name as a client on this host would get them. The error says why
// there are none.
func (r *Resolver) Addrs(ctx context.Context, name dnsname.Name) (addrs []netip.Addr, err error) {
	for _, qtype := range []uint16{dns.TypeA, dns.TypeAAAA} {
		q := &dnsserver.Query{Msg: new(dns.Msg).SetQuestion(name.String(), qtype), Name: name, Proto: dnsserver.TCP}
		m, failed := rest{r, r.state.Load(), selfAt, false}.ServeDNS(ctx, q)
		if failed != nil {
			err = failed
			continue
		}
		if m.Rcode != dns.RcodeSuccess && err == nil {
			err = errors.New(dns.RcodeToString[m.Rcode])
		}
		for _, rr := range m.Answer {
			if addr, ok := dnswire.Addr(rr); ok {
				addrs = append(addrs, addr)
			}
		}
	}
	if len(addrs) == 0 && err == nil {
		err = errors.New("the name has no address")
	}
	return addrs, err
}

// Policy returns the current Policy.
func (r *Resolver) Policy() *policy.Policy { return r.state.Load().Policy }

// Forward returns the forwarder.
func (r *Resolver) Forward() *forward.Forward { return r.forward }

// Cache returns the current cache. Apply may replace it.
func (r *Resolver) Cache() *cache.Cache { return r.state.Load().cache }

// Absent returns the number of NXDOMAIN answers for cluster names.
func (r *Resolver) Absent() uint64 { return r.absent.Load() }

// Walked returns the counters of walks through search lists.
func (r *Resolver) Walked() Walked { return r.autopath.stats() }

// FlushStale drops cached answers of servers that are no longer used for the name. It returns their
// number.
func (r *Resolver) FlushStale() int {
	return r.Cache().Flush(func(c cache.Remembered) bool { return r.IsStale(c.Entry) })
}

// IsStale reports whether an entry came from a server that is no longer used for its name.
func (r *Resolver) IsStale(entry cache.Entry) bool {
	route, ok := r.forward.Match(entry.Name)
	return !ok || !slices.Contains(route.Servers, entry.Server)
}

// Covers reports whether a name, as text of a dnsname.Name, is in one of the cluster's zones. It
// does not allocate.
func (r *Resolver) Covers(text []byte) bool { return r.state.Load().isOfZone(text) }

// ZoneOf returns the cluster's zone that contains a name, or the zero Name for other names.
func (r *Resolver) ZoneOf(name dnsname.Name) dnsname.Name { return r.state.Load().zoneOf(name) }

// Publish sets the snapshot for cluster names, which belongs to the cluster of that kubeconfig.
func (r *Resolver) Publish(kubeconfig string, s *zone.Snapshot) { r.names.publish(kubeconfig, s) }

// Unready sets the reason why there is no snapshot of the cluster of that kubeconfig.
func (r *Resolver) Unready(kubeconfig string, reason error) { r.names.unready(kubeconfig, reason) }

// Known returns the snapshot for cluster names, or nil if nothing is known about the cluster.
func (r *Resolver) Known() *zone.Snapshot { return r.names.known() }
