package doctor

import (
	"context"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
	"github.com/node-dns/node-dns/internal/test/dnstest"
	"github.com/node-dns/node-dns/internal/test/lab"
)

// TestAskDirectly queries real nameservers in all ways.
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
		{"fails even without validation", "www.test.", "A", dnstest.Faults{Rcode: dns.RcodeServerFailure}, "UDP, DO, 512, 4096 DO, TCP, CD: SERVFAIL"},
	} {
		t.Run(row.name, func(t *testing.T) {
			server := dnstest.NewServer(t, long)
			server.SetFaults(row.faults)
			n := Name{Name: row.asked, Type: row.qtype}
			n.askDirectly(t.Context(), []nameserver.Server{nameserver.MustParse(server.Addr().String())})
			if _, got, _ := strings.Cut(n.Direct[0].words(), " "); got != row.want {
				t.Errorf("got %s, want %s", got, row.want)
			}
		})
	}
}

// TestRouteOf proves that the longest domain wins and that names of the built-in resolver have no
// route.
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
			t.Errorf("%s: got %q, want %q", row.name, got, row.want)
		}
	}
}

// TestGivenName: a daemon that did not list its recent names used up the time for all queries. If
// the daemon could not be asked for the name that the admin gave, that name was missing from the
// report.
func TestGivenName(t *testing.T) {
	nxdomain := func(context.Context, control.Question) (control.Answer, error) {
		return control.Answer{Rcode: "NXDOMAIN"}, nil
	}
	hang := func(ctx context.Context) control.RecentNames {
		<-ctx.Done()
		return control.RecentNames{}
	}
	for _, row := range []struct {
		name string
		api  control.API
		says string
	}{
		{"the recent names take too long", control.API{RecentNames: hang, Query: nxdomain}, "www.test. A (given): NXDOMAIN"},
		{"an older daemon", control.API{}, "www.test. A (given): the running daemon does not support this request"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			root := lab.ShortDir(t)
			listener, err := control.Listen(control.SocketPath(root))
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- control.Serve(ctx, listener, row.api) }()
			g := &gathering{root: root, given: "www.test"}
			g.s.Status = &control.Status{}
			g.names(t.Context())
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
			found := checkNames(g.s)
			if len(found) != 1 || !strings.HasPrefix(found[0].What, row.says) {
				t.Errorf("got %+v, want %s", found, row.says)
			}
		})
	}
}
