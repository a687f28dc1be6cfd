package daemon

import (
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
	r.await("two slow queries are recorded", func() bool {
		slow = r.status().SlowNames
		return len(slow) == 2
	})
	if s := slow[0]; s.Count != 1 || s.Type == slow[1].Type || s.Name != "slow.example.com." || s.Client != "127.0.0.1" || s.By != site.Addr().String() || s.Worst < 2*dnsserver.SlowAfter || s.Took > time.Minute {
		t.Errorf("%+v", s)
	}
	client := `client="127.0.0.1"`
	for what, want := range map[string]float64{"slow": 2, "failed": 2} {
		if got := r.value(address, "nodedns_client_troubles", client, `what="`+what+`"`); got != want {
			t.Errorf("%s: %v, expected %v", what, got, want)
		}
	}
	if _, body := r.get(address, "/metrics"); strings.Contains(body, "slow.example.com") {
		t.Error("a name is in the metrics")
	}
}
