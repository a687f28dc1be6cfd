package daemon

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/node-dns/node-dns/internal/dns/nameserver"
	"github.com/node-dns/node-dns/internal/policy"
)

// leaveToOther returns p, or what p becomes while a node-dns of the host, such as that of the RPM,
// answers at an address that this daemon, in a pod, would listen on. Its admin has configured it
// for this node, and it works without the kubelet. An address that this daemon has bound is its
// own: so the one that starts first stays.
func (f *follower) leaveToOther(p *policy.Policy) *policy.Policy {
	if !f.isInPod() || p.Config.Intercept.Cilium { // with Cilium, the pod has a network of its own
		return p
	}
	var bound []netip.AddrPort
	if f.server != nil {
		bound = f.view.Listening()
	}
	ask := p.MayHaveOther(bound)
	answers := make([]policy.Identified, len(ask))
	deadline := time.Now().Add(nameserver.LocalTimeout)
	var asked sync.WaitGroup
	for i, at := range ask {
		asked.Go(func() {
			by, err := nameserver.Identify(context.Background(), new(net.Dialer), at, deadline)
			answers[i] = policy.Identified{At: at, By: by, Err: err}
		})
	}
	asked.Wait()
	before := ""
	if old := f.policy(); old != nil {
		before = old.LeftTo
	}
	return p.LeaveTo(policy.OtherNodeDNS(before, answers))
}
