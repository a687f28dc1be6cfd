package doctor

import (
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
	"github.com/node-dns/node-dns/internal/test/dnstest"
)

// TestAskDirectly asks real nameservers in all ways.
func TestAskDirectly(t *testing.T) {
	long := "long.test. 300 IN TXT " + strings.Repeat(strings.Repeat("x", 200)+" ", 4) + "\nwww.test. 300 IN A 192.0.2.1\n"
	for _, row := range []struct {
		name, asked, qtype string
		faults             dnstest.Faults
		want               string
	}{
		{"answers", "www.test.", "A", dnstest.Faults{}, "UDP, DO, 512, 4096 DO, TCP: NOERROR"},
		{"has a long answer", "long.test.", "TXT", dnstest.Faults{}, "UDP, DO, 4096 DO, TCP: NOERROR; 512: truncated"},
		{"does not know it", "nowhere.test.", "A", dnstest.Faults{}, "UDP, DO, 512, 4096 DO, TCP: NXDOMAIN"},
		{"has another type", "www.test.", "AAAA", dnstest.Faults{}, "UDP, DO, 512, 4096 DO, TCP: NODATA"},
		{"fails, without validation too", "www.test.", "A", dnstest.Faults{Rcode: dns.RcodeServerFailure}, "UDP, DO, 512, 4096 DO, TCP, CD: SERVFAIL"},
	} {
		t.Run(row.name, func(t *testing.T) {
			server := dnstest.NewServer(t, long)
			server.SetFaults(row.faults)
			n := Name{Name: row.asked, Type: row.qtype}
			n.askDirectly(t.Context(), []nameserver.Server{nameserver.MustParse(server.Addr().String())})
			if _, got, _ := strings.Cut(n.Direct[0].words(), " "); got != row.want {
				t.Errorf("%s, want %s", got, row.want)
			}
		})
	}
}

// TestRouteOf: the longest domain wins, and the built-in resolver's names have no route.
func TestRouteOf(t *testing.T) {
	forwarded := control.Status{
		Cluster: control.Cluster{Domain: "cluster.local."},
		Routes:  []control.Route{{Domain: "cluster.local."}, {Domain: "corp.example."}, {Domain: "//"}, {Domain: "example."}, {Domain: "."}},
	}
	builtIn := forwarded
	builtIn.Cluster = control.Cluster{Domain: "cluster.local.", ReverseZones: []string{"30.172.in-addr.arpa."}, Resolver: &control.Resolver{}}
	for _, row := range []struct {
		status     control.Status
		name, want string
	}{
		{forwarded, "www.corp.example.", "corp.example."},
		{forwarded, "www.example.", "example."},
		{forwarded, "www.test.", "."},
		{forwarded, "web.shop.svc.cluster.local.", "cluster.local."},
		{builtIn, "web.shop.svc.cluster.local.", ""},
		{builtIn, "1.0.30.172.in-addr.arpa.", ""},
		{builtIn, "www.test.", "."},
		{control.Status{}, "www.test.", ""},
	} {
		if got := routeOf(row.status, row.name); got != row.want {
			t.Errorf("%s: %q, want %q", row.name, got, row.want)
		}
	}
}
