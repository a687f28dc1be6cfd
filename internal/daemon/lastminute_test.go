package daemon

import (
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/admin/view"
	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/test/dnstest"
)

// TestSample: the sample has the counters of the listeners.
func TestSample(t *testing.T) {
	site := dnstest.NewServer(t, siteRecords+"example.com. 300 IN SOA a. b. 1 2 3 4 5\n")
	r := start(t, map[string]string{upstreamPath: upstreamFile(site)})
	before := view.NewSample(time.Now(), r.daemon.server.Traffic())
	for range 3 {
		dnstest.Exchange(t, r.address(), "www.example.com.", dns.TypeA)
	}
	dnstest.ExchangeTCP(t, r.address(), "nowhere.example.com.", dns.TypeA)
	var after view.Counted
	r.await("they are counted", func() bool {
		after = view.NewSample(time.Now(), r.daemon.server.Traffic())
		return after.Responses-before.Responses >= 4
	})
	if after.Queries-before.Queries != 4 || after.NXDomain-before.NXDomain != 1 || after.ServFail != before.ServFail || len(after.UpTo) == 0 {
		t.Errorf("%+v and then %+v", before, after)
	}
	if dnsserver.RcodeNames[dns.RcodeNameError] != "NXDOMAIN" || dnsserver.RcodeNames[dns.RcodeServerFailure] != "SERVFAIL" {
		t.Error("the names of response codes differ")
	}
}
