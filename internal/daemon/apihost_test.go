package daemon

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/test/dnstest"
	"github.com/node-dns/node-dns/internal/test/kubetest"
)

// TestAPIByName: the API server's host name is looked up without the system's resolver. That
// resolver is the daemon itself, which waits for the API.
func TestAPIByName(t *testing.T) {
	t.Parallel()
	const records = `
		api.corp.example. 300 IN A 127.0.0.1
		alias.corp.example. 300 IN CNAME api.corp.example.
		api.svc.cluster.local. 300 IN A 127.0.0.1`
	for _, row := range []struct {
		name, host, hosts, resolvConf string
		asked                         string // name that the upstream is queried for; empty if it is not queried
		problem                       string // empty if the API server is reached
	}{
		{name: "in /etc/hosts", host: "API.corp.example", hosts: "127.0.0.1 other api.corp.example # the API\n"},
		{name: "cluster name in /etc/hosts", host: "api.svc.cluster.local", hosts: "127.0.0.1 api.svc.cluster.local\n"},
		{name: "upstream", host: "api.corp.example", asked: "api.corp.example."},
		{name: "alias", host: "alias.corp.example", asked: "alias.corp.example."},
		{name: "found by the search list", host: "api", resolvConf: "search corp.example\n", asked: "api.corp.example."},
		{name: "cluster name not in /etc/hosts", host: "api.svc.cluster.local", problem: "it is a cluster name that is not in /etc/hosts"},
		{name: "NXDOMAIN upstream", host: "none.corp.example", asked: "none.corp.example.", problem: "looking up none.corp.example: NXDOMAIN"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			api, site := kubetest.NewServer(t), dnstest.NewServer(t, records)
			api.Apply(shop)
			r := start(t, map[string]string{
				"/etc/node-dns/node-dns.yaml": fmt.Sprintf("upstreams: [\"%s\"]\n", site.Addr()),
				"/etc/hosts":                  row.hosts,
				"/etc/resolv.conf":            row.resolvConf,
				kubeconfigPath:                strings.Replace(string(api.Kubeconfig()), "https://127.0.0.1:", "https://"+row.host+":", 1),
			})
			if row.problem == "" {
				r.synced()
				if rcode := r.clusterRcode("web.shop.svc"); rcode != dns.RcodeSuccess {
					t.Errorf("a Service: %s", dns.RcodeToString[rcode])
				}
			} else {
				r.await("the problem is reported", func() bool {
					return strings.Contains(strings.Join(r.status().Problems, "\n"), row.problem)
				})
			}
			if n := site.QueriesFor("api.svc.cluster.local.", dns.TypeA); n > 0 {
				t.Errorf("a cluster name was sent to the upstream %d times", n)
			}
			isAsked := slices.ContainsFunc(site.Received(), func(q dnstest.Query) bool { return q.Msg.Question[0].Name == row.asked })
			if row.asked != "" && !isAsked {
				t.Errorf("%s was not sent to the upstream", row.asked)
			}
		})
	}
}
