package daemon

import (
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/test/dnstest"
	"github.com/node-dns/node-dns/internal/test/kubetest"
)

// exported are objects for a Service that other clusters export.
const exported = `
apiVersion: multicluster.x-k8s.io/v1alpha1
kind: ServiceImport
metadata: {name: web, namespace: shop}
spec: {type: ClusterSetIP, ips: [10.42.0.1], ports: [{name: http, port: 80, protocol: TCP}]}
`

// TestClusterSet: names that other clusters export are answered from the API. They are forwarded if
// the API has no ServiceImports or if a route exists for them. Until the API has been read they are
// SERVFAIL.
func TestClusterSet(t *testing.T) {
	t.Parallel()
	const name = "web.shop.svc.clusterset.local."
	const ofSite, ofRoute, ofAPI = name + " 30 A 192.0.2.66", name + " 30 A 192.0.2.67", name + " 5 A 10.42.0.1"
	rows := []struct {
		story            string
		has, isDown      bool
		settings, answer string
		asksSite         bool
	}{
		{"an API with ServiceImports", true, false, "", ofAPI, false},
		{"an API without", false, false, "", ofSite, true},
		{"with the cluster's own nameservers", true, false, "clusterDNS: [10.255.255.1]\n", ofAPI, false},
		{"an API that is away", true, true, "", ";; SERVFAIL", false},
		{"the API is down, with the cluster's own nameservers", true, true, "clusterDNS: [10.255.255.1]\n", ";; SERVFAIL", false},
		{"a cluster domain below it, with its own nameservers", false, true, "clusterDomain: svc.clusterset.local\nclusterDNS: [\"ROUTE\"]\n", name + " 5 A 192.0.2.67", false},
		{"nameservers of its own", true, false, "routes: [{domain: clusterset.local, servers: [\"ROUTE\"]}]\n", ofRoute, false},
	}
	for _, row := range rows {
		t.Run(row.story, func(t *testing.T) {
			api := kubetest.NewServer(t)
			api.Apply(shop)
			api.Apply(exported)
			api.SetImports(row.has)
			if row.isDown {
				api.SetFaults(kubetest.Faults{Status: 503})
			}
			site := dnstest.NewServer(t, siteRecords+name+" 30 IN A 192.0.2.66\n")
			route := dnstest.NewServer(t, name+" 30 IN A 192.0.2.67\n")
			r := start(t, map[string]string{
				kubeconfigPath: string(api.Kubeconfig()), upstreamPath: upstreamFile(site),
				"/etc/node-dns/node-dns.yaml": strings.ReplaceAll(row.settings, "ROUTE", route.Addr().String()),
			})
			if !row.isDown {
				r.synced()
			}
			if diff := dnstest.Diff(row.answer, without(dnstest.Exchange(t, r.address(), name, dns.TypeA))); diff != "" {
				t.Error(diff)
			}
			if asked := site.QueriesFor(name, dns.TypeA) > 0; asked != row.asksSite {
				t.Errorf("the site's nameserver received: %v", asked)
			}
		})
	}
}
