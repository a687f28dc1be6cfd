package daemon

import (
	"fmt"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/test/dnstest"
	"github.com/node-dns/node-dns/internal/test/kubetest"
)

// saidIn formats an answer: the rcode, the first address with its TTL, and the code of the Extended
// DNS Error.
func saidIn(m *dns.Msg) string {
	text := dns.RcodeToString[m.Rcode]
	if len(m.Answer) > 0 {
		if a, ok := m.Answer[0].(*dns.A); ok {
			text += fmt.Sprintf(" %s %d", a.A, a.Hdr.Ttl)
		}
	}
	if opt := m.IsEdns0(); opt != nil {
		for _, option := range opt.Option {
			if ede, ok := option.(*dns.EDNS0_EDE); ok {
				text += fmt.Sprintf(" EDE %d", ede.InfoCode)
			}
		}
	}
	return text
}

// TestAllUpstreamsDead: by default cached answers are served beyond their TTL, and other queries
// get an error with the reason. When an upstream is back, the next query uses it.
func TestAllUpstreamsDead(t *testing.T) {
	t.Parallel()
	const records = `
		brief.example. 1 IN A 192.0.2.81
		example. 1 IN SOA ns.example. hostmaster.example. 1 2 3 4 1
		www.example. 300 IN A 192.0.2.80`
	for _, row := range []struct {
		name, config string
		silent       bool
		brief, gone  string
	}{
		{"silent", "", true, "NOERROR 192.0.2.81 30 EDE 3", "NXDOMAIN EDE 19"},
		{"closed", "", false, "NOERROR 192.0.2.81 30 EDE 3", "NXDOMAIN EDE 19"},
		{"turned off", "serveStale: 0\n", false, "SERVFAIL EDE 23", "SERVFAIL EDE 23"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			a, b := dnstest.NewServer(t, records), dnstest.NewServer(t, records)
			r := start(t, map[string]string{"/etc/node-dns/node-dns.yaml": fmt.Sprintf("upstreams: [\"%s\", \"%s\"]\n%s", a.Addr(), b.Addr(), row.config)})
			ask := func(name string) string {
				return saidIn(dnstest.Exchange(t, r.address(), name, dns.TypeA, dnstest.EDNS(1232)))
			}
			if got := ask("brief.example.") + ", " + ask("gone.example."); got != "NOERROR 192.0.2.81 1, NXDOMAIN" {
				t.Fatal(got)
			}
			for _, s := range []*dnstest.Server{a, b} {
				if row.silent {
					s.SetFaults(dnstest.Faults{Drop: true})
				} else {
					s.Down()
				}
			}
			time.Sleep(1100 * time.Millisecond) // longer than the TTLs
			for range 4 {                       // before and after the outage is known
				if got := ask("brief.example."); got != row.brief {
					if row.config == "" || got != "SERVFAIL EDE 13 EDE 23" {
						t.Errorf("a name that was answered: %s, want %s", got, row.brief)
					}
				}
				if got := ask("gone.example."); got != row.gone {
					if row.config == "" || got != "SERVFAIL EDE 13 EDE 23" {
						t.Errorf("a name that did not exist: %s, want %s", got, row.gone)
					}
				}
			}
			want := "SERVFAIL EDE 23"
			if row.silent {
				want = "SERVFAIL EDE 22"
			}
			if got := ask("www.example."); got != want {
				t.Errorf("a name that was never queried: %s, want %s", got, want)
			}
			b.SetFaults(dnstest.Faults{})
			if err := b.Up(); err != nil {
				t.Fatal(err)
			}
			if got := ask("another.example."); got != "NXDOMAIN" {
				t.Errorf("when an upstream is back: %s", got)
			}
			r.await("the fresh answer", func() bool { return ask("brief.example.") == "NOERROR 192.0.2.81 1" })
		})
	}
}

// TestNegativeAnswersHideNothing: a cached negative answer for a parent, or for the name itself,
// does not hide a Service that exists now (CVE-2026-44687, coredns issue 2434).
func TestNegativeAnswersHideNothing(t *testing.T) {
	t.Parallel()
	site := dnstest.NewServer(t, "local. 3600 IN SOA ns.local. hostmaster.local. 1 2 3 4 3600\n")
	corp := dnstest.NewServer(t, "x.corp.example. 300 IN A 192.0.2.7\n")
	api := kubetest.NewServer(t)
	api.Apply(shop)
	r := start(t, map[string]string{
		"/etc/node-dns/node-dns.yaml": fmt.Sprintf("upstreams: [\"%s\"]\nroutes: [{domain: corp.example, servers: [\"%s\"]}]\n", site.Addr(), corp.Addr()),
		kubeconfigPath:                string(api.Kubeconfig()),
	})
	r.synced()
	ask := func(name string) string { return saidIn(dnstest.Exchange(t, r.address(), name, dns.TypeA)) }
	for _, name := range []string{"x.local.", "svc.local.", "example.", "corp.example.local.", "later.shop.svc.cluster.local."} {
		if got := ask(name); got != "NXDOMAIN" {
			t.Errorf("%s: %s", name, got)
		}
	}
	if got := ask("web.shop.svc.cluster.local."); got != "NOERROR 172.30.0.9 5" {
		t.Errorf("a Service below local.: %s", got)
	}
	if got := ask("x.corp.example."); got != "NOERROR 192.0.2.7 300" {
		t.Errorf("a name of a route below example.: %s", got)
	}
	api.Apply(`
apiVersion: v1
kind: Service
metadata: {name: later, namespace: shop}
spec: {clusterIP: 172.30.0.77, clusterIPs: [172.30.0.77], ports: [{name: http, port: 80}]}
`)
	r.await("the new Service", func() bool { return ask("later.shop.svc.cluster.local.") == "NOERROR 172.30.0.77 5" })
	for _, s := range []*dnstest.Server{site, corp} {
		if n := s.QueriesFor("later.shop.svc.cluster.local.", dns.TypeA); n != 0 {
			t.Errorf("a cluster name was sent upstream %d times", n)
		}
	}
}
