package daemon

import (
	"log/slog"
	"net/netip"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/test/dnstest"
	"github.com/node-dns/node-dns/internal/test/kubetest"
	"github.com/node-dns/node-dns/internal/test/lab"
)

// TestLeavesTheNodeToTheRPM: in a pod, the daemon leaves a node alone that a node-dns of the host
// serves. It neither listens, nor watches the API, nor requests interception, and says so once. It
// is ready, so that a rollout continues. It takes over when the other daemon has ended.
func TestLeavesTheNodeToTheRPM(t *testing.T) {
	t.Parallel()
	site := dnstest.NewServer(t, siteRecords)
	api := kubetest.NewServer(t)
	api.Apply(shop + dnsService)
	rpm := start(t, map[string]string{upstreamPath: upstreamFile(site)})
	at := rpm.address()
	log := new(lab.Text)
	pod := launch(t, map[string]string{
		upstreamPath: upstreamFile(site), "/etc/node-dns/node-dns.yaml": "intercept: clusterDNS\n", kubeconfigPath: string(api.Kubeconfig()),
	}, func(c *Config) {
		c.APIServer, c.Listen, c.Log = "10.96.0.1:443", []netip.AddrPort{at}, slog.New(slog.NewTextHandler(log, nil))
	})
	pod.await("the pod's daemon leaves the node to the RPM's", func() bool {
		s := pod.status()
		return strings.HasPrefix(s.LeftTo, "node-dns ") && strings.HasSuffix(s.LeftTo, " at "+at.String())
	})
	for range 3 {
		pod.daemonLooks()
	}
	s := pod.status()
	if !s.Ready || len(s.Listeners) > 0 || s.Interception != nil || s.Cluster.Resolver != nil || pod.request() != "" || len(s.Problems) > 0 {
		t.Errorf("while the RPM's daemon serves: ready %v, listeners %v, interception %v, API %v, request %q, problems %q",
			s.Ready, s.Listeners, s.Interception, s.Cluster.Resolver, pod.request(), s.Problems)
	}
	search, err := control.FetchSearch(t.Context(), control.SocketPath(pod.root), control.SearchQuestion{})
	if err != nil || search.LeftTo != s.LeftTo || s.ServerList().LeftTo != s.LeftTo {
		t.Errorf("the search list is of a daemon that leaves the node to %q, and the servers to %q: %v", search.LeftTo, s.ServerList().LeftTo, err)
	}
	if left, not := strings.Count(log.String(), "leaving this node to another node-dns"), strings.Count(log.String(), "not ready"); left != 1 || not != 0 {
		t.Errorf("the log says %d times that the node is left to another node-dns, and %d times that this one is not ready", left, not)
	}
	rpm.end()
	pod.await("the pod's daemon takes over", func() bool {
		s := pod.status()
		return s.LeftTo == "" && s.Ready && len(s.Listeners) == 1 && pod.request() != ""
	})
	for range 3 {
		pod.daemonLooks()
	}
	if s := pod.status(); s.LeftTo != "" {
		t.Errorf("the pod's daemon leaves the node to %s, which is itself", s.LeftTo)
	}
	if got := pod.rcode(at, "www.example.com."); got != dns.RcodeSuccess {
		t.Errorf("got %s", dns.RcodeToString[got])
	}
}
