package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

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

// TestForClients: the admin's name and one of each kind come first, and there are never more than
// the limits allow. Names that the daemon cannot answer at once are left out.
func TestForClients(t *testing.T) {
	var s Snapshot
	add := func(name, qtype, why string) {
		s.Names = append(s.Names, Name{Name: name, Type: qtype, Why: why, Answer: answered("NOERROR")})
	}
	add("given.", "A", "given")
	add("api.", "A", "")
	for i := range 5 {
		add(fmt.Sprintf("recent%d.", i), "TXT", recentlyUsed)
	}
	add("node.", "A", "")
	for i := range 5 {
		add(fmt.Sprintf("route%d.", i), "SOA", "")
	}
	s.Names[2].Answer = answered("SERVFAIL")
	s.Names[3].Answer.Took = time.Minute
	var got []string
	for _, a := range s.forClients() {
		got = append(got, a.Name+" "+a.Type)
	}
	want := []string{"given. A", "api. A", "recent2. TXT", "recent3. TXT", "recent4. TXT", "node. A", "route0. SOA", "route1. SOA"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestAskNames: this host queries each name in every way. A way without an answer is not used
// again.
func TestAskNames(t *testing.T) {
	server := dnstest.NewServer(t, "www.test. 300 IN A 192.0.2.1\nlong.test. 300 IN TXT "+strings.Repeat(strings.Repeat("x", 200)+" ", 4)+"\n")
	at := server.Addr().String()
	p := LocalProbe{Server: server.Addr()}
	p.askNames(t.Context(), []Asked{{Name: "www.test.", Type: "A"}, {Name: "long.test.", Type: "TXT"}, {Name: "nowhere.test.", Type: "A"}})
	want := []string{
		at + " UDP, DO, 512, 4096 DO, TCP: NOERROR",
		at + " UDP, DO, 4096 DO, TCP: NOERROR; 512: truncated",
		at + " UDP, DO, 512, 4096 DO, TCP: NXDOMAIN",
	}
	for i, a := range p.Names {
		if a.words() != want[i] {
			t.Errorf("%s: got %s", a.Name, a.words())
		}
	}
	if len(p.Names) != len(want) {
		t.Errorf("got %d names", len(p.Names))
	}
	p = LocalProbe{Server: server.Addr(), UDP: Answer{Err: errSilent}}
	if p.askNames(t.Context(), []Asked{{Name: "www.test.", Type: "A"}}); p.Names != nil {
		t.Errorf("a client without an answer queries more names: %+v", p.Names)
	}
}
