package cluster

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/dns/zone"
	"github.com/node-dns/node-dns/internal/test/conformance"
	"github.com/node-dns/node-dns/internal/test/dnstest"
	"github.com/node-dns/node-dns/internal/test/kubetest"
)

// TestCasesOfOldAPI repeats all queries of the SkyDNS recording against a node whose API server is
// that of OpenShift 3.11. With Endpoints, the Watcher's data gives the same answers as SkyDNS,
// except where SkyDNS is wrong.
func TestCasesOfOldAPI(t *testing.T) {
	const profile = "openshift"
	cases, err := conformance.Read(fixtures)
	if err != nil {
		t.Fatal(err)
	}
	internet, err := conformance.Internet(fixtures)
	if err != nil {
		t.Fatal(err)
	}
	nodes, asked := map[string]netip.AddrPort{}, 0
	for _, c := range cases {
		if c.Profile != profile {
			continue
		}
		node, ok := nodes[c.Fixture]
		if !ok {
			node = oldNode(t, c.Fixture, internet)
			nodes[c.Fixture] = node
		}
		asked++
		t.Run(c.ID, func(t *testing.T) {
			got := dnstest.Exchange(t, node, c.Q.Name, dns.StringToType[c.Q.Type], dnstest.EDNS(1232))
			if fault := c.Judge(got); fault != "" {
				t.Errorf("%s %s: %s", c.Q.Name, c.Q.Type, fault)
			}
		})
	}
	if asked < 90 {
		t.Errorf("%d cases with the profile %s", asked, profile)
	}
}

// oldNode starts a nameserver that gets its objects from an API without EndpointSlices.
func oldNode(t *testing.T, fixture string, next dnsserver.Handler) netip.AddrPort {
	t.Helper()
	w := newWorldOf(t, kubetest.NewServer(t))
	w.server.Old()
	w.server.Apply(readFixture(t, fixture))
	w.writeKubeconfig()
	w.start()
	t.Cleanup(w.stop)
	w.awaitPhase(Synced)
	resolver := zone.NewResolver(zone.Config{
		Domains: []dnsname.Name{dnsname.MustParse("cluster.local")}, Profile: zone.OpenShift, TTL: -1, NegativeTTL: -1,
		Nameservers: []netip.Addr{netip.MustParseAddr("10.96.0.10")}, Next: next,
		Rotate: func(int) int { return 0 },
	})
	resolver.Set(w.snapshot())
	server := dnsserver.New(dnsserver.Config{Handler: resolver})
	if err := server.Listen([]netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:0")}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := server.Shutdown(ctx); err != nil {
			t.Error(err)
		}
	})
	return server.Listeners()[0].Addr
}
