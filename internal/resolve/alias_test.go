package resolve

import (
	"slices"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/test/dnstest"
)

// aliasRecords are the records of the site's server, which also answers for names that are not its
// own.
const aliasRecords = `
api.example.com. 300 IN CNAME web.shop.svc.cluster.local.
web.shop.svc.cluster.local. 300 IN A ` + dnstest.ForgedA + `
long.example.com. 300 IN CNAME api.example.com.
gone.example.com. 300 IN CNAME gone.shop.svc.cluster.local.
gone.shop.svc.cluster.local. 300 IN A ` + dnstest.ForgedA + `
intra.example.com. 300 IN CNAME host.corp.example.
host.corp.example. 300 IN A ` + dnstest.ForgedA + `
same.example.com. 300 IN CNAME www.same.example.
www.same.example. 300 IN A 192.0.2.81
circle.example.com. 300 IN CNAME circle.corp.example.
circle.corp.example. 300 IN A ` + dnstest.ForgedA + `
tree.example.com. 300 IN DNAME corp.example.
host.tree.example.com. 0 IN CNAME host.corp.example.
mail.example.com. 300 IN MX 10 web.shop.svc.cluster.local.
own.example.com. 300 IN MX 10 www.example.com.
intramail.example.com. 300 IN MX 10 host.corp.example.
_h._tcp.example.com. 300 IN SRV 0 5 80 web.shop.svc.cluster.local.
h.example.com. 300 IN HTTPS 0 web.shop.svc.cluster.local.
ns.example.com. 300 IN A 192.0.2.53
plain.example.com. 300 IN CNAME www.example.com.
www.example.com. 300 IN A 192.0.2.80
`

// corpRecords are the records of a route's server.
const corpRecords = `
host.corp.example. 60 IN A 192.0.2.90
site.corp.example. 60 IN CNAME private.example.com.
private.example.com. 60 IN A 10.1.2.3
circle.corp.example. 60 IN CNAME back.sub.corp.example.
back.sub.corp.example. 60 IN A 192.0.2.91
`

// subRecords are the records of the server of a route below that.
const subRecords = `
back.sub.corp.example. 60 IN CNAME circle.corp.example.
www.sub.corp.example. 60 IN A 192.0.2.92
`

// Records that servers add to an answer.
const (
	forgedGlue     = "web.shop.svc.cluster.local. 300 IN A " + dnstest.ForgedA
	forgedReferral = "com. 300 IN NS web.shop.svc.cluster.local."
)

// TestAliasElsewhere: records behind an alias for cluster names or another server's names are not
// used. The owner of these names is queried instead, and the client gets the complete chain.
// Otherwise a caching client (libvirt's dnsmasq) would have cached the forged records. The
// authority and additional sections could carry the same forged address, as glue of an MX, SRV,
// HTTPS or NS record.
func TestAliasElsewhere(t *testing.T) {
	tests := []struct {
		name  string
		ask   string
		qtype uint16 // 0 means A
		want  string // records of the answer section
		rcode int
		asked string // the question that a route's server gets

		authority, additional string // what its server adds
		beside                string // records of both sections that the client gets, except OPT and SOA
	}{
		{name: "into the cluster", ask: "api.example.com.", want: "api.example.com. CNAME web.shop.svc.cluster.local., web.shop.svc.cluster.local. A 172.30.0.9"},
		{
			name: "into the cluster through another alias", ask: "long.example.com.",
			want: "long.example.com. CNAME api.example.com., api.example.com. CNAME web.shop.svc.cluster.local., web.shop.svc.cluster.local. A 172.30.0.9",
		},
		{name: "into the cluster, NXDOMAIN", ask: "gone.example.com.", want: "gone.example.com. CNAME gone.shop.svc.cluster.local.", rcode: dns.RcodeNameError},
		{name: "into the domain of a route", ask: "intra.example.com.", want: "intra.example.com. CNAME host.corp.example., host.corp.example. A 192.0.2.90", asked: "host.corp.example."},
		{name: "by DNAME", ask: "host.tree.example.com.", want: "tree.example.com. DNAME corp.example., host.tree.example.com. CNAME host.corp.example., host.corp.example. A 192.0.2.90"},
		{name: "query for the alias only", ask: "intra.example.com.", qtype: dns.TypeCNAME, want: "intra.example.com. CNAME host.corp.example."},
		// A domain's own servers know about private names in public zones.
		{name: "out of the domain of a route", ask: "site.corp.example.", want: "site.corp.example. CNAME private.example.com., private.example.com. A 10.1.2.3"},
		{name: "into the domain of a route to the same server", ask: "same.example.com.", want: "same.example.com. CNAME www.same.example., www.same.example. A 192.0.2.81"},
		{name: "loop between two servers", ask: "circle.example.com.", rcode: dns.RcodeServerFailure},
		{
			name: "MX of a cluster host, with its address", ask: "mail.example.com.", qtype: dns.TypeMX, additional: forgedGlue,
			want: "mail.example.com. MX 10 web.shop.svc.cluster.local.",
		},
		{
			name: "MX of a route's host, with its address", ask: "intramail.example.com.", qtype: dns.TypeMX,
			additional: "host.corp.example. 300 IN A " + dnstest.ForgedA,
			want:       "intramail.example.com. MX 10 host.corp.example.",
		},
		{
			name: "SRV of a cluster host, with its address", ask: "_h._tcp.example.com.", qtype: dns.TypeSRV, additional: forgedGlue,
			want: "_h._tcp.example.com. SRV 0 5 80 web.shop.svc.cluster.local.",
		},
		{
			name: "HTTPS of a cluster host, with its address", ask: "h.example.com.", qtype: dns.TypeHTTPS, additional: forgedGlue,
			want: "h.example.com. HTTPS 0 web.shop.svc.cluster.local.",
		},
		{
			name: "NS of a cluster host, with its address", ask: "ns.example.com.", authority: forgedReferral, additional: forgedGlue,
			want: "ns.example.com. A 192.0.2.53", beside: "com. NS web.shop.svc.cluster.local.",
		},
		{
			name: "NS of a cluster host, with its address and no answer", ask: "ns.example.com.", qtype: dns.TypeAAAA,
			authority: forgedReferral, additional: forgedGlue, beside: "com. NS web.shop.svc.cluster.local.",
		},
		{
			name: "NS for the domain of another server's route", ask: "www.sub.corp.example.",
			authority: "corp.example. 60 IN NS ns.sub.corp.example.\ncorp.example. 60 IN A " + dnstest.ForgedA,
			want:      "www.sub.corp.example. A 192.0.2.92",
		},
		{
			name: "MX and NS of its own host, with its address", ask: "own.example.com.", qtype: dns.TypeMX,
			authority: "example.com. 300 IN NS ns.example.com.", additional: "www.example.com. 300 IN A 192.0.2.80",
			want: "own.example.com. MX 10 www.example.com.", beside: "example.com. NS ns.example.com., www.example.com. A 192.0.2.80",
		},
		{name: "no route change", ask: "plain.example.com.", want: "plain.example.com. CNAME www.example.com., www.example.com. A 192.0.2.80"},
	}
	for _, receivers := range []int{0, 1} { // without and with lanes
		site, corp, sub := dnstest.NewServer(t, aliasRecords), dnstest.NewServer(t, corpRecords), dnstest.NewServer(t, subRecords)
		config := "nodeName: node-7\nupstreams: [\"SITE\"]\nserviceCIDRs: [172.30.0.0/16]\nroutes: [{domain: corp.example, servers: [\"CORP\"]}, {domain: same.example, servers: [\"SITE\"]}, " +
			"{domain: sub.corp.example, servers: [\"SUB\"]}]\n"
		config = strings.NewReplacer("SITE", site.Addr().String(), "CORP", corp.Addr().String(), "SUB", sub.Addr().String()).Replace(config)
		r := stillOn(t, receivers, config, "", bazaar())
		c := twoServers(t, r).dial(t, "udp").wire
		for _, test := range tests {
			t.Run(test.name, func(t *testing.T) {
				if test.qtype == 0 {
					test.qtype = dns.TypeA
				}
				if test.authority+test.additional != "" {
					for _, server := range []*dnstest.Server{site, corp, sub} {
						server.SetFaultsFor(test.ask, dnstest.Faults{ExtraAuthority: test.authority, ExtraAdditional: test.additional})
					}
				}
				for range 2 { // from the upstream, then from the cache
					m := unpacked(t, exchangeOn(t, c, wireQuery(t, test.ask, test.qtype)))
					if listed(m.Answer) != test.want || listed(m.Ns, m.Extra) != test.beside || m.Rcode != test.rcode {
						t.Errorf("%v lanes: got\n%v", receivers, m)
					}
				}
				if test.asked != "" && corp.QueriesFor(test.asked, test.qtype) != 1 {
					t.Errorf("%v lanes: asked %d times", receivers, corp.QueriesFor(test.asked, test.qtype))
				}
			})
		}
		if n := len(sub.Received()); n > 2*maxAliases {
			t.Errorf("%d queries for a CNAME loop", n)
		}
	}
}

// listed returns the records of the sections without TTL and class, except OPT and SOA.
func listed(sections ...[]dns.RR) string {
	var all []string
	for _, rr := range slices.Concat(sections...) {
		if rrtype := rr.Header().Rrtype; rrtype != dns.TypeOPT && rrtype != dns.TypeSOA {
			words := strings.Fields(rr.String())
			all = append(all, strings.Join(slices.Delete(words, 1, 3), " "))
		}
	}
	return strings.Join(all, ", ")
}
