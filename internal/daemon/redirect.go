package daemon

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
	"github.com/node-dns/node-dns/internal/policy"
)

// With `intercept: cilium`, Cilium redirects pods' queries to this pod while the kubelet reports it
// ready, and sends them to the cluster's DNS pods otherwise.

const (
	// redirectedDrain is how long a stopping daemon continues to answer. Cilium continues to send
	// queries to a pod that is being deleted (cilium/cilium issue 43454), until the readiness probe
	// has failed: with the chart, two probes with a pause of 2 s.
	redirectedDrain = 10 * time.Second
	// redirectedEvery is the interval between questions at addresses that are redirected.
	redirectedEvery = time.Minute
)

// answerRedirected continues to answer until Cilium has learned that this pod is not ready. /ready
// does not answer any more.
func (d *Daemon) answerRedirected(ctx context.Context) {
	if p := d.policy(); p != nil && p.Config.Intercept.Cilium {
		d.log.Info("answering until Cilium sends queries elsewhere")
		d.config.AwaitRedirected(ctx)
	}
}

// redirectTrial is the state of the questions whether Cilium redirects.
type redirectTrial struct {
	addrs []netip.Addr
	next  time.Time
}

// tryRedirected checks which program answers at the addresses of the cluster's DNS Service: Cilium
// redirects this pod's own queries, too.
func (t *trial) tryRedirected(ctx context.Context, p *policy.Policy, now time.Time) {
	r := &t.redirect
	if slices.Equal(p.Redirected, r.addrs) && now.Before(r.next) {
		return
	}
	before := *t.view.Redirected.Load()
	found := []control.Intercepted{}
	r.addrs, r.next = p.Redirected, now.Add(redirectedEvery)
	for _, addr := range p.Redirected {
		by, err := nameserver.Identify(ctx, new(net.Dialer), netip.AddrPortFrom(addr, nameserver.Port), time.Now().Add(askTimeout))
		a := noteRedirected(before, addr, nameserver.WhyNotNodeDNS(addr, by, err, askTimeout), now)
		if found = append(found, a); !a.On {
			r.next = time.Time{}
		}
	}
	t.view.Redirected.Store(&found)
}

// noteRedirected returns the new state of an address. why is empty if node-dns answers there. It is
// pure.
func noteRedirected(before []control.Intercepted, addr netip.Addr, why string, now time.Time) control.Intercepted {
	a := control.Intercepted{Address: addr.String(), On: why == "", Since: now, Why: why}
	for _, b := range before {
		if b.Address == a.Address && b.On == a.On {
			a.Since = b.Since
		}
	}
	return a
}
