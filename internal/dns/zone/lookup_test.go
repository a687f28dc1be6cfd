package zone_test

import (
	"testing"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/zone"
	"github.com/node-dns/node-dns/internal/test/dnstest"
)

// TestSomePods: if not all Pods are known, a Pod missing among the known ones may still exist.
// Without permission to watch Pods, every Pod name was NXDOMAIN.
func TestSomePods(t *testing.T) {
	const failed = ";; SERVFAIL\n;; ede 14\n;; flags rd ra"
	tests := []struct {
		name   string
		change func(*zone.Config)
		ask    string
		want   string
	}{
		{"unknown Pod", verified, "10-9-9-9.shop.pod.cluster.local.", failed},
		{"previously known Pod", verified, "10-2-0-1.shop.pod.cluster.local.", failed},
		{"unknown Pod, OpenShift", func(c *zone.Config) { openShift(c); verified(c) }, "10-9-9-9.shop.pod.cluster.local.", failed},
		{"no address", verified, "10-9-9.shop.pod.cluster.local.", absent},
		{"no namespace", verified, "10-9-9-9.nowhere.pod.cluster.local.", absent},
		{"the namespace", verified, "shop.pod.cluster.local.", nodata},
		{"a service", verified, "web.shop.svc.cluster.local.", "web.shop.svc.cluster.local. 5 A 172.30.0.10"},
		{"insecure", nil, "10-9-9-9.shop.pod.cluster.local.", "10-9-9-9.shop.pod.cluster.local. 5 A 10.9.9.9"},
		{"disabled", disabled, "10-9-9-9.shop.pod.cluster.local.", absent},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			resolver := resolverOf(t, "namespace shop\nservice shop/web 172.30.0.10\npod shop/one 10.2.0.1", test.change)
			resolver.Set(resolver.Snapshot().SomePods())
			check(t, test.ask, test.want, dnstest.Exchange(t, serveResolver(t, resolver, never(t)), test.ask, dns.TypeA, dnstest.DO()))
			if _, ok := resolver.AppendResponse(nil, packedQuery(t, test.ask, dns.TypeA), 1232); ok != (test.want != failed) {
				t.Errorf("answered in wire format: %t", ok)
			}
		})
	}
}
