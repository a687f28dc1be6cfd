package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

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
	ask := mayHaveOther(p, bound)
	answers := make([]identified, len(ask))
	deadline := time.Now().Add(nameserver.LocalTimeout)
	var asked sync.WaitGroup
	for i, at := range ask {
		asked.Go(func() {
			by, err := nameserver.Identify(context.Background(), new(net.Dialer), at, deadline)
			answers[i] = identified{at, by, err}
		})
	}
	asked.Wait()
	before := ""
	if old := f.policy(); old != nil {
		before = old.LeftTo
	}
	return p.LeaveTo(otherNodeDNS(before, answers))
}

// mayHaveOther returns the addresses of p at which another daemon of this host may answer. Other
// hosts may answer at an address that is not local, such as one that moves between hosts, and the
// cluster's DNS pods at one of Intercept. It is pure.
func mayHaveOther(p *policy.Policy, bound []netip.AddrPort) []netip.AddrPort {
	return slices.DeleteFunc(slices.Clone(p.Listen), func(at netip.AddrPort) bool {
		return !p.Net.IsLocal(at.Addr()) || slices.Contains(bound, at) || slices.Contains(p.Intercept, at.Addr())
	})
}

// identified is the answer to a question for the nameserver's name at an address.
type identified struct {
	at  netip.AddrPort
	by  string
	err error
}

// otherNodeDNS returns the node-dns that answers, or "". One that was found before stays until it
// has closed its sockets, because systemd keeps them open while it restarts. It is pure.
func otherNodeDNS(before string, answers []identified) string {
	stays := false
	for _, a := range answers {
		if a.err == nil && nameserver.IsNodeDNS(a.by) {
			return fmt.Sprintf("%s at %v", a.by, a.at)
		}
		stays = stays || a.err != nil && !errors.Is(a.err, unix.ECONNREFUSED)
	}
	if stays {
		return before
	}
	return ""
}
