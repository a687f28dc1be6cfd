package daemon

import (
	"log/slog"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/miekg/dns"
	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/netstate"
	"github.com/node-dns/node-dns/internal/policy"
	"github.com/node-dns/node-dns/internal/test/dnstest"
	"github.com/node-dns/node-dns/internal/test/kubetest"
	"github.com/node-dns/node-dns/internal/test/lab"
)

func TestOtherNodeDNS(t *testing.T) {
	const there = "node-dns 0.9.0 at 10.0.0.5:53"
	at, second := netip.MustParseAddrPort("10.0.0.5:53"), netip.MustParseAddrPort("10.0.0.6:53")
	free, silent := identified{at, "", unix.ECONNREFUSED}, identified{at, "", os.ErrDeadlineExceeded}
	for _, test := range []struct {
		name, before string
		answers      []identified
		want         string
	}{
		{"nothing to ask", "", nil, ""},
		{"the address is free", "", []identified{free}, ""},
		{"node-dns answers", "", []identified{{at, "node-dns 0.9.0", nil}}, there},
		{"it answers at one of two addresses", "", []identified{{second, "", unix.ECONNREFUSED}, {at, "node-dns 0.9.0", nil}}, there},
		{"dnsmasq answers", "", []identified{{at, "dnsmasq-2.90", nil}}, ""},
		{"a nameserver without a name", "", []identified{{at, "", nil}}, ""},
		{"a program does not answer", "", []identified{silent}, ""},
		{"node-dns restarts", there, []identified{silent}, there},
		{"node-dns has left", there, []identified{free}, ""},
		{"dnsmasq replaces node-dns", there, []identified{{at, "dnsmasq-2.90", nil}}, ""},
		{"node-dns is upgraded", there, []identified{{at, "node-dns 1.0.0", nil}}, "node-dns 1.0.0 at 10.0.0.5:53"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := otherNodeDNS(test.before, test.answers); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestMayHaveOther(t *testing.T) {
	at := func(texts ...string) (all []netip.AddrPort) {
		for _, text := range texts {
			all = append(all, netip.AddrPortFrom(netip.MustParseAddr(text), 53))
		}
		return all
	}
	p := &policy.Policy{
		Listen:    at("127.0.0.1", "10.0.0.5", "10.0.0.6", "192.0.2.7", "172.30.0.53"),
		Intercept: []netip.Addr{netip.MustParseAddr("172.30.0.53")},
		Net: netstate.State{Addrs: []netstate.Addr{
			{Interface: "eth0", Addr: netip.MustParseAddr("10.0.0.5")},
			{Interface: "eth0", Addr: netip.MustParseAddr("10.0.0.6")},
			{Interface: "node-dns", Addr: netip.MustParseAddr("172.30.0.53")},
		}},
	}
	if got, want := mayHaveOther(p, at("10.0.0.6")), at("127.0.0.1", "10.0.0.5"); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v: not those that are bound, of other hosts, or intercepted", got, want)
	}
}

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
