package policy

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
	"github.com/node-dns/node-dns/internal/test/policytest"
	"github.com/node-dns/node-dns/internal/upstream"
)

// TestTargets: each route is asked, and compared with its own nameservers. Only a route of
// node-dns.yaml, which a rollout may change, is also compared with the node's nameservers without
// it.
func TestTargets(t *testing.T) {
	const wider = " or 10.0.0.2?"
	many := ""
	for i := range 2 * maxTargets {
		many += fmt.Sprintf("- {domain: r%d.test, servers: [192.0.2.1]}\n", i)
	}
	host := upstream.Set{Servers: policytest.Servers("10.0.0.2")}
	corp := upstream.Route{Domain: dnsname.MustParse("corp.test"), Servers: policytest.Servers("10.0.0.9")}
	vpn := upstream.Set{Servers: host.Servers, Routes: []upstream.Route{corp}}
	for _, test := range []struct {
		name, nodeDNS, dnsmasq string
		captured               upstream.Set
		want                   []string // "DOMAIN: REFERENCE or ..."; "?" follows one that must know the name
	}{
		{"the node's nameserver", "", "", host, []string{".: 10.0.0.2"}},
		{"no nameserver", "", "", upstream.Set{}, nil},
		{"upstreams", "upstreams: [10.0.0.3]", "", host, []string{".: 10.0.0.3 or 10.0.0.2"}},
		{"over TLS", "upstreams: ['dns+tls://10.0.0.3#dns.test']", "", host, []string{".: 10.0.0.2"}},
		{"the same nameserver twice", "upstreams: [10.0.0.2]", "", host, []string{".: 10.0.0.2"}},
		{"a route", "routes: [{domain: corp.test, servers: [10.0.0.4, 10.0.0.5]}]", "", host, []string{".: 10.0.0.2", "corp.test.: 10.0.0.4 or 10.0.0.5" + wider}},
		{"a route over TLS", "routes: [{domain: corp.test, servers: ['dns+tls://10.0.0.4#dns.test']}]", "", host, []string{".: 10.0.0.2", "corp.test.:" + wider}},
		{"a route that wins over NetworkManager's", "routes: [{domain: corp.test, servers: [10.0.0.4]}]", "", vpn, []string{".: 10.0.0.2", "corp.test.: 10.0.0.4 or 10.0.0.9?" + wider}},
		{"a route and upstreams", "upstreams: [10.0.0.3]\nroutes: [{domain: corp.test, servers: [10.0.0.4]}]", "", host, []string{".: 10.0.0.3 or 10.0.0.2", "corp.test.: 10.0.0.4 or 10.0.0.3?" + wider}},
		{"NetworkManager's route", "", "", vpn, []string{".: 10.0.0.2", "corp.test.: 10.0.0.9"}},
		{"dnsmasq's routes", "", "server=/corp.test/10.0.0.4\nserver=//10.0.0.4\nlocal=/lab.test/\nserver=/www.corp.test/#\n", host, []string{".: 10.0.0.2", "corp.test.: 10.0.0.4"}},
		{"the cluster's nameserver", "clusterDNS: [10.96.0.10]", "", host, []string{".: 10.0.0.2"}},
		{"a nameserver that is this node", "routes: [{domain: corp.test, servers: [192.0.2.10]}]", "", host, []string{".: 10.0.0.2"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := targetTexts(New(Inputs{
				Config: policytest.Config(t, test.nodeDNS+"\n", ""), Net: policytest.Node(), Dnsmasq: policytest.Dnsmasq(t, test.dnsmasq),
				Captured: test.captured, From: nameserver.NetworkManager,
			}))
			if d := cmp.Diff(test.want, got); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
		})
	}
	t.Run("many", func(t *testing.T) {
		got := targetTexts(New(Inputs{Config: policytest.Config(t, "routes:\n"+many, ""), Net: policytest.Node(), Captured: host, From: nameserver.NetworkManager}))
		if len(got) != maxTargets || got[0] != ".: 10.0.0.2" {
			t.Errorf("got %d routes, want %d, the root first: %q", len(got), maxTargets, got)
		}
	})
}

// targetTexts formats the routes to ask.
func targetTexts(p *Policy) (texts []string) {
	for _, r := range p.Targets() {
		text, sep := r.Domain.String()+":", " "
		for _, ref := range r.References {
			if ref.IsOther && sep == " " {
				sep = " or "
			}
			text += sep + ref.Server.String()
			if ref.IsOther {
				text += "?"
			}
			sep = " or "
		}
		texts = append(texts, text)
	}
	return texts
}
