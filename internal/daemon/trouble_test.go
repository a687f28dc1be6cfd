package daemon

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/test/dnstest"
)

// TestTroubles: the status lists slow names, and the metrics count clients with failures. Neither
// includes normal answers.
func TestTroubles(t *testing.T) {
	t.Parallel()
	site := dnstest.NewServer(t, siteRecords)
	site.SetFaultsFor("slow.example.com.", dnstest.Faults{Delay: 2 * dnsserver.SlowAfter})
	site.SetFaultsFor("bad.example.com.", dnstest.Faults{Rcode: dns.RcodeServerFailure})
	r, address := withMetrics(t, map[string]string{upstreamPath: upstreamFile(site)}, "")
	for _, name := range []string{"www.example.com.", "www.example.com.", "slow.example.com.", "bad.example.com."} {
		dnstest.Exchange(t, r.address(), name, dns.TypeA)
		dnstest.ExchangeTCP(t, r.address(), name, dns.TypeAAAA)
	}
	var slow []control.SlowName
	var all int // a busy machine is slow for other names, too
	r.await("two slow queries are recorded", func() bool {
		slow, all = nil, 0
		for _, s := range r.status().SlowNames {
			all += int(s.Count)
			if s.Name == "slow.example.com." {
				slow = append(slow, s)
			}
		}
		return len(slow) == 2
	})
	if s := slow[0]; s.Count != 1 || s.Type == slow[1].Type || s.Name != "slow.example.com." || s.Client != "127.0.0.1" || s.By != site.Addr().String() || s.Worst < 2*dnsserver.SlowAfter || s.Took > time.Minute {
		t.Errorf("%+v", s)
	}
	client := `client="127.0.0.1"`
	for what, want := range map[string]float64{"slow": float64(all), "failed": 2} {
		if got := r.value(address, "nodedns_client_troubles", client, `what="`+what+`"`); got != want {
			t.Errorf("%s: %v, expected %v", what, got, want)
		}
	}
	if _, body := r.get(address, "/metrics"); strings.Contains(body, "slow.example.com") {
		t.Error("a name is in the metrics")
	}
}

// TestFailuresByRouteAndClient: the status counts SERVFAIL by route, client and reason, whether the
// failure is new or comes from the cache, over both transports.
func TestFailuresByRouteAndClient(t *testing.T) {
	closed, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	dead := closed.LocalAddr().(*net.UDPAddr).Port
	closed.Close()
	site := dnstest.NewServer(t, siteRecords)
	site.SetFaultsFor("bad.example.com.", dnstest.Faults{Rcode: dns.RcodeRefused})
	r := start(t, map[string]string{
		upstreamPath: upstreamFile(site), "/etc/dnsmasq.d/corp.conf": fmt.Sprintf("server=/corp.example/127.0.0.1#%d\n", dead),
	})
	for _, name := range []string{"a.corp.example.", "b.corp.example."} {
		for range 2 {
			dnstest.Exchange(t, r.address(), name, dns.TypeA)
			dnstest.ExchangeTCP(t, r.address(), name, dns.TypeA)
		}
	}
	for _, name := range []string{"www.example.com.", "bad.example.com."} {
		dnstest.Exchange(t, r.address(), name, dns.TypeA)
	}
	var l *control.LastMinute
	r.await("all responses are counted", func() bool {
		l = r.daemon.view.LastMinute(time.Now().Add(time.Minute))
		return l != nil && l.Responses == 10
	})
	if len(l.Routes) != 2 || len(l.Clients) != 1 || len(l.Reasons) < 2 {
		t.Fatalf("%+v", l)
	}
	corp, root := l.Routes[0], l.Routes[1]
	if corp.Domain != "corp.example." || corp.ServFail != 8 || corp.Refused != 0 || corp.Queries == 0 || corp.Unanswered != corp.Queries {
		t.Errorf("route of the dead server: %+v", corp)
	}
	if root.Domain != "." || root.ServFail+root.Refused != 1 {
		t.Errorf("route of the site's server: %+v", root)
	}
	if c := l.Clients[0]; c.Client != "127.0.0.1" || c.ServFail+c.Refused != 9 {
		t.Errorf("client: %+v", c)
	}
	if l.Recorded != 9 || l.ServFail+l.Refused != 9 {
		t.Errorf("recorded %d of %d failures", l.Recorded, l.ServFail+l.Refused)
	}
	if !slices.ContainsFunc(l.Reasons, func(r control.ReasonMinute) bool { return r.Reason == dnsserver.FailedBefore && r.ServFail >= 4 }) {
		t.Errorf("reasons: %+v", l.Reasons)
	}
}
