package zone_test

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dnstest"
	"github.com/node-dns/node-dns/internal/zone"
)

// endpoints is a zone.Endpoints. A call that is not expected panics.
type endpoints struct {
	OnOf func(ctx context.Context, service zone.Key) ([]*zone.Slice, error)
	OnAt func(ctx context.Context, addr netip.Addr) ([]*zone.Slice, error)
}

var _ zone.Endpoints = (*endpoints)(nil)

func (e *endpoints) Of(ctx context.Context, service zone.Key) ([]*zone.Slice, error) {
	return e.OnOf(ctx, service)
}

func (e *endpoints) At(ctx context.Context, addr netip.Addr) ([]*zone.Slice, error) {
	return e.OnAt(ctx, addr)
}

// TestEndpointsOnDemand asks for endpoints of ClusterIP services that the Snapshot does not have, and that are fetched;
// and for what needs none, which must fetch nothing.
func TestEndpointsOnDemand(t *testing.T) {
	web := strings.Fields("web http:8080 10.1.0.1=www 10.1.0.2 !10.1.0.3")
	both := func(c *zone.Config) { networks(c); openShift(c) }
	tests := []struct {
		name    string
		change  func(*zone.Config)
		ask     string
		qtype   uint16
		fetches string
		want    string
	}{
		{"the Service itself", nil, "web.shop.svc.cluster.local.", dns.TypeA, "", "web.shop.svc.cluster.local. 5 A 172.30.0.10"},
		{"its ports", nil, "_http._tcp.web.shop.svc.cluster.local.", dns.TypeA, "", "_http._tcp.web.shop.svc.cluster.local. 5 A 172.30.0.10"},
		{"host", nil, "www.web.shop.svc.cluster.local.", dns.TypeA, "of shop/web", "www.web.shop.svc.cluster.local. 5 A 10.1.0.1"},
		{"no such host", nil, "10-1-0-3.web.shop.svc.cluster.local.", dns.TypeA, "of shop/web", absent},
		{"headless service", nil, "db.shop.svc.cluster.local.", dns.TypeA, "", "db.shop.svc.cluster.local. 5 A 10.2.0.1"},
		{"host of a headless service", nil, "www.db.shop.svc.cluster.local.", dns.TypeA, "", absent},
		{"not empty", ignoreEmpty, "web.shop.svc.cluster.local.", dns.TypeA, "of shop/web", "web.shop.svc.cluster.local. 5 A 172.30.0.10"},
		{"empty", ignoreEmpty, "idle.shop.svc.cluster.local.", dns.TypeA, "of shop/idle", absent},
		{"address", networks, "1.0.1.10.in-addr.arpa.", dns.TypePTR, "at 10.1.0.1", "1.0.1.10.in-addr.arpa. 5 PTR www.web.shop.svc.cluster.local."},
		{"address without a Service", networks, "2.0.1.10.in-addr.arpa.", dns.TypePTR, "at 10.1.0.2", reverseAbsent("1.10")},
		{"known address", networks, "1.0.2.10.in-addr.arpa.", dns.TypePTR, "", "1.0.2.10.in-addr.arpa. 5 PTR 10-2-0-1.db.shop.svc.cluster.local."},
		{"part of an address", networks, "0.1.10.in-addr.arpa.", dns.TypePTR, "", reverseNodata("1.10")},
		{"address outside the networks", networks, "1.2.0.192.in-addr.arpa.", dns.TypeA, "", "1.2.0.192.in-addr.arpa. 5 A " + fromNext},
		{"wildcard", openShift, "www.web.shop.svc.cluster.local.", dns.TypeA, "", "www.web.shop.svc.cluster.local. 30 A 172.30.0.10"},
		{"endpoints", openShift, "web.shop.endpoints.cluster.local.", dns.TypeA, "of shop/web", "web.shop.endpoints.cluster.local. 30 A 10.1.0.1\nweb.shop.endpoints.cluster.local. 30 A 10.1.0.2"},
		{"_endpoints", openShift, "_endpoints.web.shop.svc.cluster.local.", dns.TypeAAAA, "of shop/web", nodata3},
		{"endpoints of openshift", openShift, "openshift.default.endpoints.cluster.local.", dns.TypeA, "of default/kubernetes", "openshift.default.endpoints.cluster.local. 30 A 192.0.2.10"},
		{"SkyDNS address", both, "1.0.1.10.in-addr.arpa.", dns.TypePTR, "at 10.1.0.1", "1.0.1.10.in-addr.arpa. 30 PTR www.web.shop.svc.cluster.local."},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			fetched := make(chan string, 10)
			source := &endpoints{
				OnOf: func(_ context.Context, service zone.Key) ([]*zone.Slice, error) {
					fetched <- "of " + service.Namespace + "/" + service.Name
					switch service.Name {
					case "web":
						return []*zone.Slice{
							sliceOf(t, zone.Key{Namespace: "shop", Name: "web-1"}, web),
							sliceOf(t, zone.Key{Namespace: "shop", Name: "web-2"}, web),
						}, nil
					case "kubernetes":
						return []*zone.Slice{sliceOf(t, service, []string{"kubernetes", "192.0.2.10"})}, nil
					}
					return nil, nil
				},
				OnAt: func(_ context.Context, addr netip.Addr) ([]*zone.Slice, error) {
					fetched <- "at " + addr.String()
					if addr == netip.MustParseAddr("10.1.0.1") {
						return []*zone.Slice{
							sliceOf(t, zone.Key{Namespace: "shop", Name: "web-1"}, web),
							sliceOf(t, zone.Key{Namespace: "shop", Name: "gone-1"}, []string{"gone", "10.1.0.1=gone"}),
						}, nil
					}
					return nil, nil
				},
			}
			resolver := resolverOf(t, `
				service  default/kubernetes 172.30.0.1
				service  shop/web 172.30.0.10 http:80
				service  shop/idle 172.30.0.11
				headless shop/db
				slice    shop/db-1 db 10.2.0.1`, func(c *zone.Config) {
				c.Endpoints, c.Next = source, answerer(fromNext)
				if test.change != nil {
					test.change(c)
				}
			})
			got := dnstest.Exchange(t, serveResolver(t, resolver, answerer(fromNext)), test.ask, test.qtype)
			check(t, test.ask, test.want, got)
			var all []string
			for range len(fetched) {
				all = append(all, <-fetched)
			}
			if strings.Join(all, ", ") != test.fetches {
				t.Errorf("fetched %q, want %q", all, test.fetches)
			}
			if _, ok := resolver.AppendResponse(nil, packedQuery(t, test.ask, test.qtype), 1232); ok && test.fetches != "" {
				t.Error("answered on the wire without fetching")
			}
		})
	}
}

// TestEndpointsCannotBeFetched: that is SERVFAIL with the reason, never NXDOMAIN.
func TestEndpointsCannotBeFetched(t *testing.T) {
	away := errors.New("connection refused")
	resolver := resolverOf(t, shop, func(c *zone.Config) {
		networks(c)
		c.Endpoints = &endpoints{
			OnOf: func(context.Context, zone.Key) ([]*zone.Slice, error) { return nil, away },
			OnAt: func(context.Context, netip.Addr) ([]*zone.Slice, error) { return nil, away },
		}
	})
	addr := serveResolver(t, resolver, never(t))
	for name, qtype := range map[string]uint16{"www.web.shop.svc.cluster.local.": dns.TypeA, "9.9.9.10.in-addr.arpa.": dns.TypePTR} {
		got := dnstest.Exchange(t, addr, name, qtype, dnstest.DO())
		check(t, name, ";; SERVFAIL\n;; ede 23\n;; flags rd ra", got)
		if text := got.IsEdns0().String(); !strings.Contains(text, away.Error()) {
			t.Errorf("the reason is not said: %s", text)
		}
	}
}
