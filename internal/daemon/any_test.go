package daemon

import (
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/test/dnstest"
)

// TestANY: no ANY query is forwarded, for any name. The answer is a minimal record, or one RRset of
// local data, over UDP and TCP.
func TestANY(t *testing.T) {
	t.Parallel()
	site, cluster := dnstest.NewServer(t, siteRecords), dnstest.NewServer(t, siteRecords)
	r := start(t, map[string]string{
		upstreamPath:                  upstreamFile(site),
		"/etc/node-dns/node-dns.yaml": "clusterDNS: ['" + cluster.Addr().String() + "']\n",
		"/etc/dnsmasq.d/own.conf":     "host-record=own.example,192.0.2.7,2001:db8::7\ntxt-record=own.example,text\n",
	})
	for name, want := range map[string]string{
		"www.example.com.":            `HINFO "RFC8482" ""`,
		"nowhere.example.com.":        `HINFO "RFC8482" ""`,
		"web.shop.svc.cluster.local.": `HINFO "RFC8482" ""`,
		"own.example.":                "A 192.0.2.7",
	} {
		for _, network := range []string{"udp", "tcp"} {
			client := dns.Client{Net: network}
			m, _, err := client.Exchange(new(dns.Msg).SetQuestion(name, dns.TypeANY), r.address().String())
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, rr := range m.Answer {
				fields := strings.Fields(rr.String())
				got = append(got, strings.Join(fields[3:], " "))
			}
			if strings.Join(got, ", ") != want || m.Rcode != dns.RcodeSuccess {
				t.Errorf("%s %s: %v", network, name, m)
			}
		}
	}
	for _, server := range []*dnstest.Server{site, cluster} {
		for _, q := range server.Received() {
			if q.Msg.Question[0].Qtype == dns.TypeANY {
				t.Errorf("an upstream received an ANY query for %s", q.Msg.Question[0].Name)
			}
		}
	}
}
