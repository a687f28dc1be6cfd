package view

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

// redirectedEvery is the interval between questions at addresses that are redirected.
const redirectedEvery = time.Minute

// Redirections checks which program answers at the addresses of the cluster's DNS Service: Cilium
// redirects this pod's own queries, too. Only one goroutine uses it.
type Redirections struct {
	View  *View // shows the result
	addrs []netip.Addr
	next  time.Time
}

// Check asks if it is time to, and when the addresses have changed.
func (r *Redirections) Check(ctx context.Context) {
	wanted, now := r.View.policy().Redirected, time.Now()
	if slices.Equal(wanted, r.addrs) && now.Before(r.next) {
		return
	}
	before := *r.View.redirected.Load()
	found := []control.Intercepted{}
	r.addrs, r.next = wanted, now.Add(redirectedEvery)
	for _, addr := range wanted {
		by, err := nameserver.Identify(ctx, new(net.Dialer), netip.AddrPortFrom(addr, nameserver.Port), time.Now().Add(nameserver.LocalTimeout))
		a := noteRedirected(before, addr, nameserver.WhyNotNodeDNS(addr, by, err, nameserver.LocalTimeout), now)
		if found = append(found, a); !a.On {
			r.next = time.Time{}
		}
	}
	r.View.redirected.Store(&found)
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

// redirectionStatus returns what Cilium redirects. Before the first snapshot of the cluster, the
// addresses are unknown.
func (v *View) redirectionStatus(p *policy.Policy) *control.Interception {
	i := &control.Interception{Cilium: true, Wanted: control.Texts(p.Redirected), Addresses: []control.Intercepted{}}
	for _, addr := range p.Redirected {
		a := control.Intercepted{Address: addr.String(), Why: "not checked yet"}
		for _, seen := range *v.redirected.Load() {
			if seen.Address == a.Address {
				a = seen
			}
		}
		i.Addresses = append(i.Addresses, a)
	}
	switch {
	case p.API == (policy.API{}):
		i.Why = "there is no Kubernetes API"
	case v.resolver.Known() == nil:
		i.Why = "the cluster's names are not known yet"
	}
	return i
}
