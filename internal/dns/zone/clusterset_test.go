package zone_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/dns/zone"
	"github.com/node-dns/node-dns/internal/test/dnstest"
)

// imports are the objects of CoreDNS's tests for its multicluster option (plugin/kubernetes,
// kubernetes_test.go at 1.15), and a few more.
const imports = `
	namespace testns
	import   testns/svc1 10.0.0.1 http:80
	imported testns/svc1-slice1 svc1@cluster1 http:80 172.0.0.1=ep1a
	import   testns/svc-dual-stack 10.0.0.2 10::2 http:80
	import   testns/hdls1 http:80
	imported testns/hdls1-slice1 hdls1@cluster1 http:80 172.0.0.2 !172.0.0.9
	imported testns/hdls1-slice2 hdls1@cluster2 http:80 172.0.0.3=db
	imported testns/hdls1-slice3 hdls1@cluster1 http:80 172.0.0.4=db
	imported testns/hdls1-slice4 hdls1@cluster2 http:80 172.0.0.3=db
	service  testns/svc1 10.9.0.1 http:80
	slice    testns/svc1-own svc1 http:80 10.1.0.1
	service  testns/both 10.0.0.8 http:80
	import   testns/both 10.0.0.8 http:80
	import   testns/no-endpoints http:80`

func withClusterSet(c *zone.Config) { c.ClusterSet = dnsname.MustParse(zone.ClusterSet) }

// TestClusterSet: Services exported by other clusters have names in their own domain.
func TestClusterSet(t *testing.T) {
	addr := serveResolver(t, resolverOf(t, imports, withClusterSet), never(t))
	const soa = "\n;; AUTHORITY\nclusterset.local. 5 SOA ns.dns.clusterset.local. hostmaster.clusterset.local. 1700000000 7200 1800 86400 5"
	rows := []struct{ story, name, qtype, want string }{
		{"a ClusterSetIP", "svc1.testns.svc.clusterset.local.", "A", "svc1.testns.svc.clusterset.local. 5 A 10.0.0.1"},
		{"cluster name of the same Service", "svc1.testns.svc.cluster.local.", "A", "svc1.testns.svc.cluster.local. 5 A 10.9.0.1"},
		{
			"SRV of a port", "_http._tcp.svc1.testns.svc.clusterset.local.", "SRV",
			"_http._tcp.svc1.testns.svc.clusterset.local. 5 SRV 0 100 80 svc1.testns.svc.clusterset.local.\n;; ADDITIONAL\nsvc1.testns.svc.clusterset.local. 5 A 10.0.0.1",
		},
		{"endpoint", "ep1a.cluster1.svc1.testns.svc.clusterset.local.", "A", "ep1a.cluster1.svc1.testns.svc.clusterset.local. 5 A 172.0.0.1"},
		{"endpoint in another cluster", "ep1a.cluster2.svc1.testns.svc.clusterset.local.", "A", ";; NXDOMAIN" + soa},
		{"an endpoint without its cluster", "ep1a.svc1.testns.svc.clusterset.local.", "A", ";; NXDOMAIN" + soa},
		{"both families", "svc-dual-stack.testns.svc.clusterset.local.", "AAAA", "svc-dual-stack.testns.svc.clusterset.local. 5 AAAA 10::2"},
		{
			"headless service", "hdls1.testns.svc.clusterset.local.", "A",
			"hdls1.testns.svc.clusterset.local. 5 A 172.0.0.2\nhdls1.testns.svc.clusterset.local. 5 A 172.0.0.3\nhdls1.testns.svc.clusterset.local. 5 A 172.0.0.4",
		},
		{
			"SRV, same hostname in two clusters", "_http._tcp.hdls1.testns.svc.clusterset.local.", "SRV",
			"_http._tcp.hdls1.testns.svc.clusterset.local. 5 SRV 0 25 80 172-0-0-2.cluster1.hdls1.testns.svc.clusterset.local.\n" +
				"_http._tcp.hdls1.testns.svc.clusterset.local. 5 SRV 0 25 80 db.cluster1.hdls1.testns.svc.clusterset.local.\n" +
				"_http._tcp.hdls1.testns.svc.clusterset.local. 5 SRV 0 25 80 db.cluster2.hdls1.testns.svc.clusterset.local.\n;; ADDITIONAL\n" +
				"172-0-0-2.cluster1.hdls1.testns.svc.clusterset.local. 5 A 172.0.0.2\n" +
				"db.cluster1.hdls1.testns.svc.clusterset.local. 5 A 172.0.0.4\ndb.cluster2.hdls1.testns.svc.clusterset.local. 5 A 172.0.0.3",
		},
		{"cluster above its hosts (RFC 8020)", "cluster2.hdls1.testns.svc.clusterset.local.", "A", soa[1:]},
		{"host in one cluster", "db.cluster2.hdls1.testns.svc.clusterset.local.", "A", "db.cluster2.hdls1.testns.svc.clusterset.local. 5 A 172.0.0.3"},
		{"no endpoints", "no-endpoints.testns.svc.clusterset.local.", "A", ";; NXDOMAIN" + soa},
		{"not imported", "web.testns.svc.clusterset.local.", "A", ";; NXDOMAIN" + soa},
		{"a namespace", "testns.svc.clusterset.local.", "A", soa[1:]},
		{"no pods", "1-2-3-4.testns.pod.clusterset.local.", "A", ";; NXDOMAIN" + soa},
		{"the apex", "clusterset.local.", "NS", "clusterset.local. 5 NS ns.dns.clusterset.local."},
		{"the reverse of a ClusterSetIP", "1.0.0.10.in-addr.arpa.", "PTR", "1.0.0.10.in-addr.arpa. 5 PTR svc1.testns.svc.clusterset.local."},
		{"the reverse of an endpoint", "3.0.0.172.in-addr.arpa.", "PTR", "3.0.0.172.in-addr.arpa. 5 PTR db.cluster2.hdls1.testns.svc.clusterset.local."},
		{"PTR of the cluster name first", "8.0.0.10.in-addr.arpa.", "PTR", "8.0.0.10.in-addr.arpa. 5 PTR both.testns.svc.cluster.local."},
		{"PTR of a cluster endpoint", "1.0.1.10.in-addr.arpa.", "PTR", "1.0.1.10.in-addr.arpa. 5 PTR 10-1-0-1.svc1.testns.svc.cluster.local."},
	}
	for _, row := range rows {
		t.Run(row.story, func(t *testing.T) {
			check(t, row.name, row.want, dnstest.Exchange(t, addr, row.name, dns.StringToType[row.qtype]))
		})
	}
}

// TestClusterSetLongNames: a name that includes its cluster may be too long for DNS. The response
// contained it anyway, and no client could parse the response.
func TestClusterSetLongNames(t *testing.T) {
	long := strings.Repeat("x", 63)
	lines := "import " + long + "/" + long + " http:80\nimported " + long + "/a " + long + "@" + long + " http:80 172.0.0.2=" + long + " 172.0.0.3=db\n" +
		"imported " + long + "/b " + long + "@c http:80 172.0.0.4=db"
	addr := serveResolver(t, resolverOf(t, lines, func(c *zone.Config) { withClusterSet(c); c.Next = internet(t) }), never(t))
	name := long + "." + long + ".svc.clusterset.local."
	port := "_http._tcp." + name
	check(t, "SRV", port+" 5 SRV 0 50 80 db.c."+name+"\n"+port+" 5 SRV 0 50 80 db."+long+"."+name+"\n;; ADDITIONAL\n"+
		"db.c."+name+" 5 A 172.0.0.4\ndb."+long+"."+name+" 5 A 172.0.0.3",
		dnstest.ExchangeTCP(t, addr, port, dns.TypeSRV))
	check(t, "A", name+" 5 A 172.0.0.2\n"+name+" 5 A 172.0.0.3\n"+name+" 5 A 172.0.0.4", dnstest.Exchange(t, addr, name, dns.TypeA))
	if m := dnstest.Exchange(t, addr, "2.0.0.172.in-addr.arpa.", dns.TypePTR); len(m.Answer) > 0 {
		t.Errorf("got a PTR record with a name that is too long: %v", m)
	}
	check(t, "PTR", "4.0.0.172.in-addr.arpa. 5 PTR db.c."+name, dnstest.Exchange(t, addr, "4.0.0.172.in-addr.arpa.", dns.TypePTR))
}

// TestClusterSetReverseElsewhere: if the cluster's networks are known, an address outside them
// belongs to the site, even if another cluster imports it.
func TestClusterSetReverseElsewhere(t *testing.T) {
	const lines = `
		import   n/shared 10.42.0.1 http:80
		import   n/db http:80
		imported n/db-1 db@east http:80 192.168.7.7=db 10.128.0.9=db`
	asked := map[string]bool{}
	resolver := resolverOf(t, lines, func(c *zone.Config) {
		withClusterSet(c)
		c.PodCIDRs, c.ServiceCIDRs = []netip.Prefix{netip.MustParsePrefix("10.128.0.0/14")}, []netip.Prefix{netip.MustParsePrefix("10.96.0.0/12")}
		c.Next = dnsserver.HandlerFunc(func(_ context.Context, q *dnsserver.Query) (*dns.Msg, error) {
			asked[q.Msg.Question[0].Name] = true
			return new(dns.Msg), nil
		})
	})
	reverse := func(name string) (*dns.Msg, error) {
		q := query(t, name)
		q.Msg.Question[0].Qtype = dns.TypePTR
		return resolver.ServeDNS(t.Context(), q)
	}
	for _, name := range []string{"7.7.168.192.in-addr.arpa.", "1.0.42.10.in-addr.arpa."} {
		if _, err := reverse(name); err != nil || !asked[name] {
			t.Errorf("%s was not passed to Next: %v", name, err)
		}
	}
	if m, err := reverse("9.0.128.10.in-addr.arpa."); err != nil || len(m.Answer) != 1 {
		t.Errorf("cluster address: got %v, error %v", m, err)
	}
	resolver.Set(cluster(t, lines).Snapshot(newest).Unimported())
	var code *dnsserver.ExtendedError
	if m, err := reverse("9.0.128.10.in-addr.arpa."); !errors.As(err, &code) {
		t.Errorf("with unknown ServiceImports: got %v, error %v", m, err)
	}
	clear(asked)
	if _, err := reverse("7.7.168.192.in-addr.arpa."); err != nil || len(asked) != 1 {
		t.Errorf("address outside the networks: error %v", err)
	}
}

// TestClusterSetPointersAreBounded: the API does not keep addresses of ServiceImports unique, so
// the cost of a question is limited.
func TestClusterSetPointersAreBounded(t *testing.T) {
	b := new(zone.Builder)
	b.SetImports(true)
	for i := range 2000 {
		b.Imports().SetService(&zone.Service{Key: zone.Key{Namespace: "n", Name: fmt.Sprint("s", i)}, ClusterIPs: []netip.Addr{netip.MustParseAddr("10.42.0.1")}})
	}
	resolver := resolverOf(t, "", withClusterSet)
	resolver.Set(b.Snapshot(newest))
	q := query(t, "1.0.42.10.in-addr.arpa.")
	q.Msg.Question[0].Qtype = dns.TypePTR
	if m, err := resolver.ServeDNS(t.Context(), q); err != nil || len(m.Answer) == 0 || len(m.Answer) > 256 {
		t.Errorf("got %d names, error %v", len(m.Answer), err)
	}
}

// TestClusterSetHasNoAliases: SkyDNS's aliases of the Service kubernetes exist only in the cluster
// domain.
func TestClusterSetHasNoAliases(t *testing.T) {
	lines := imports + "\nservice default/kubernetes 10.0.9.9 https:443"
	addr := serveResolver(t, resolverOf(t, lines, func(c *zone.Config) { openShift(c); withClusterSet(c) }), never(t))
	for _, name := range []string{"openshift.default.svc.clusterset.local.", "local.dns.clusterset.local."} {
		if m := dnstest.Exchange(t, addr, name, dns.TypeA); m.Rcode != dns.RcodeNameError {
			t.Errorf("%s: %v", name, m)
		}
	}
}

// TestNoClusterSet: without ServiceImports in the API, the domain belongs to the site, as before.
func TestNoClusterSet(t *testing.T) {
	const name = "svc1.testns.svc.clusterset.local."
	elsewhere := dnsserver.HandlerFunc(internet(t).ServeDNS)
	for story, change := range map[string]func(*zone.Config){
		"no ServiceImports in the API": withClusterSet,
		"switched off":                 func(*zone.Config) {},
	} {
		lines := "service testns/svc1 10.9.0.1"
		if story == "switched off" {
			lines = imports
		}
		t.Run(story, func(t *testing.T) {
			asked := false
			resolver := resolverOf(t, lines, func(c *zone.Config) {
				change(c)
				c.Next = dnsserver.HandlerFunc(func(ctx context.Context, q *dnsserver.Query) (*dns.Msg, error) {
					asked = true
					return elsewhere.ServeDNS(ctx, q)
				})
			})
			if _, err := resolver.ServeDNS(t.Context(), query(t, name)); err != nil || !asked {
				t.Errorf("passed to Next: %v, error %v", asked, err)
			}
		})
	}
}

// TestUnknownImports: imports that may not be read, or that have not been read yet, are unknown.
func TestUnknownImports(t *testing.T) {
	const name = "svc1.testns.svc.clusterset.local."
	var code *dnsserver.ExtendedError
	denied := resolverOf(t, imports, withClusterSet)
	denied.Set(cluster(t, imports).Snapshot(newest).Unimported())
	if m, err := denied.ServeDNS(t.Context(), query(t, name)); !errors.As(err, &code) || code.Code != dns.ExtendedErrorCodeNotReady {
		t.Errorf("without permission: got %v, error %v", m, err)
	}
	if m, err := denied.ServeDNS(t.Context(), query(t, "svc1.testns.svc.cluster.local")); err != nil || len(m.Answer) != 1 {
		t.Errorf("cluster name: got %v, error %v", m, err)
	}
	early := resolverOf(t, "", withClusterSet)
	early.Set(nil)
	if m, err := early.ServeDNS(t.Context(), query(t, name)); !errors.As(err, &code) || code.Code != dns.ExtendedErrorCodeNotReady {
		t.Errorf("before the first Snapshot: got %v, error %v", m, err)
	}
}
