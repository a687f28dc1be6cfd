package resolve

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/dns/zone"
	"github.com/node-dns/node-dns/internal/test/dnstest"
)

// options are lines of node-dns.yaml and of dnsmasq files that affect answers. They are in groups,
// of which a configuration has at most one line each. SITE and OTHER are nameservers, and THIRD is
// OTHER in dnsmasq's notation.
var options = struct{ nodeDNS, dnsmasq [][]string }{
	nodeDNS: [][]string{
		{"clusterDomain: cluster.local", "clusterDomain: example.com", "clusterDomain: cluster", "clusterDomain: k8s.localhost", "clusterDomain: k8s.onion"},
		{"kubeconfig: none", "nodeName: node-7"},
		{`clusterDNS: ["OTHER"]`},
		{`serviceCIDRs: [172.30.0.0/16, "fd00:10::/112"]`},
		{"podCIDRs: [10.128.0.0/14]", "podCIDRs: [10.128.0.0/14, 192.0.2.0/24]"},
		{"domainNeeded: false", "domainNeeded: true"},
		{"cacheSize: 0", "cacheSize: 3", "cacheSize: 1000"},
		{"serveStale: 0", "serveStale: 60"},
		{"prefetch: false"},
		{"autopath: false"},
		{"pods: verified", "pods: disabled"},
		{"zoneProfile: openshift"},
		{"clusterTTL: 0", "clusterTTL: 77"},
		{"clusterNegativeTTL: 0", "clusterNegativeTTL: 9"},
		{"endpointPodNames: true"},
		{"ignoreEmptyService: true"},
		{"zonalNames: true"},
		{"sameZoneFirst: true"},
		{"namespaces: [default]"},
		{`routes: [{domain: web.example.com, servers: ["OTHER"]}]`, `routes: [{domain: example.com, servers: ["OTHER"]}, {domain: printer, servers: ["SITE"]}]`},
	},
	dnsmasq: [][]string{
		{"filter-A"},
		{"filter-AAAA"},
		{"filterwin2k"},
		{"bogus-priv"},
		{"domain-needed"},
		{"localise-queries"},
		{"stop-dns-rebind", "stop-dns-rebind\nrebind-domain-ok=/example.com/", "stop-dns-rebind\nrebind-localhost-ok"},
		{"bogus-nxdomain=192.0.2.80", "bogus-nxdomain=172.30.0.0/16"},
		{"ignore-address=192.0.2.80"},
		{"alias=192.0.2.80,198.51.100.80"},
		{"max-ttl=7"},
		{"max-cache-ttl=20"},
		{"min-cache-ttl=30"},
		{"neg-ttl=5"},
		{"no-negcache"},
		{"use-stale-cache"},
		{"local-ttl=9"},
		{"host-record=web.example.com,192.0.2.99", "host-record=a.nowhere.example.com,192.0.2.99", "host-record=old.shop.svc.cluster.local,192.0.2.99"},
		{"address=/web.example.com/192.0.2.98", "address=/#/192.0.2.98", "address=/example.com/", "address=/svc.cluster.local/192.0.2.98"},
		{"cname=alias.test,web.example.com"},
		{"txt-record=text.example.com,here", "srv-host=_sip._udp.example.com,here.test,5061", "ptr-record=80.2.0.192.in-addr.arpa,here.test"},
		{"local=/example.com/", "server=/example.com/THIRD", "server=//THIRD", "server=/shop.svc.cluster.local/THIRD"},
		{"edns-packet-max=600"},
		{"all-servers"},
	},
}

// configurations is the number of random configurations that TestFastAgrees tries.
var configurations = flag.Int("configurations", 100, "random configurations that the fast path is compared under")

// configuration returns random lines of both kinds. Each group has a chance of one in few.
func configuration(random *rand.Rand, few int) (nodeDNS, dnsmasq string) {
	draw := func(groups [][]string) string {
		var text strings.Builder
		for _, lines := range groups {
			if random.IntN(few) == 0 {
				text.WriteString(lines[random.IntN(len(lines))] + "\n")
			}
		}
		return text.String()
	}
	return draw(options.nodeDNS), draw(options.dnsmasq)
}

// TestFastAgrees sends the questions of the tests, under random configurations, through the fast
// path and through the handler list alone: over sockets, byte by byte, first with an empty cache
// and then from the cache; and to Fast as pods send them. It found that the fast path treated
// wildcards as names that no handler knows, that it did not report why a failure was cached, and
// that without a cache an SOA record kept a TTL above its minimum.
func TestFastAgrees(t *testing.T) {
	site, other := dnstest.NewServer(t, siteAndCluster), dnstest.NewServer(t, strings.ReplaceAll(siteAndCluster, "192.0.2.8", "192.0.2.7"))
	addresses := strings.NewReplacer("SITE", site.Addr().String(), "OTHER", other.Addr().String(), "THIRD", strings.Replace(other.Addr().String(), ":", "#", 1))
	questions := append(bazaarQueries(t), siteQueries(t)...)
	snapshots := []*zone.Snapshot{bazaar(), bazaar(), bazaar().Stale(), nil}
	answered, most := 0, *configurations
	if testing.Short() {
		most = min(most, 20)
	}
	for seed := range uint64(most) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 21))
			nodeDNS, dnsmasq := configuration(random, 2+int(seed%5))
			nodeDNS, dnsmasq = addresses.Replace("upstreams: [\"SITE\"]\n"+nodeDNS), addresses.Replace(dnsmasq)
			r := stillOn(t, 1, nodeDNS, dnsmasq, snapshots[random.IntN(len(snapshots))])
			if r.Known() == nil {
				r.Unready(r.Policy().API.Kubeconfig, errors.New("it has not been read")) // nothing waits for it
			}
			c := twoServers(t, r).dial(t, []string{"udp", "tcp"}[random.IntN(2)])
			for range 60 {
				query := questions[random.IntN(len(questions))]
				what := fmt.Sprintf("node-dns.yaml\n%sdnsmasq.conf\n%squestion %x", nodeDNS, dnsmasq, query)
				c.agree(t, what, r, query)
				for _, client := range []string{"10.128.0.41", "10.128.0.42"} {
					if agreesForClient(t, what+", from "+client, r, query, client) {
						answered++
					}
				}
			}
		})
	}
	if answered < 10*most {
		t.Errorf("Fast answered %d queries of pods", answered)
	}
}

// agree compares both paths with an empty cache and again with a full one.
func (c conns) agree(t *testing.T, what string, r *Resolver, query []byte) {
	t.Helper()
	r.Cache().Flush(nil)
	fast := exchangeOn(t, c.wire, query)
	r.Cache().Flush(nil)
	agree(t, what, fast, exchangeOn(t, c.parsed, query))
	var parsed []byte
	for range 3 { // a second may end in between
		fast, parsed = exchangeOn(t, c.wire, query), exchangeOn(t, c.parsed, query)
		if bytes.Equal(plain(t, fast), plain(t, parsed)) {
			return
		}
	}
	agree(t, what+", from memory", fast, parsed)
}

// agreesForClient reports whether Fast answers a client, and checks that the list gives the same
// answer.
func agreesForClient(t *testing.T, what string, r *Resolver, query []byte, client string) bool {
	t.Helper()
	m := new(dns.Msg)
	if m.Unpack(query) != nil || m.Question[0].Qclass != dns.ClassINET {
		return false
	}
	q := asWireQuery(t, query, client, "192.0.2.10:53")
	q.Limit = dns.MaxMsgSize
	var fast, parsed []byte
	for range 3 {
		var ok bool
		if fast, ok = r.Fast(nil, &q); !ok {
			return false
		}
		response, _, err := dnsserver.Direct(t.Context(), r, m.Copy(), q.Client, q.Local)
		if err != nil {
			return false // not a query: the server passes it to neither
		}
		if parsed, err = response.Pack(); err != nil {
			t.Fatal(err)
		}
		if bytes.Equal(plain(t, fast), plain(t, parsed)) {
			break
		}
	}
	agree(t, what, fast, parsed)
	return true
}

func agree(t *testing.T, what string, fast, parsed []byte) {
	t.Helper()
	if !bytes.Equal(plain(t, fast), plain(t, parsed)) {
		t.Fatalf("%s\nfast path\n%v\nlist\n%v", what, unpacked(t, fast), unpacked(t, parsed))
	}
}
