package cluster

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/zone"
	"github.com/node-dns/node-dns/internal/test/kubetest"
)

// TestEveryEndpointIsKnown: every ready endpoint of 1,000 Services has its name and its reverse
// name, in any query order and with any settings. Endpoints of ClusterIP Services used to be
// fetched on demand: at 20 queries a second, 115 of 199 names in 200 Services got SERVFAIL, and
// reverse names outside podCIDRs went to the site's nameservers.
func TestEveryEndpointIsKnown(t *testing.T) {
	const services = 1000
	w := newWorldOf(t, kubetest.NewServer(t))
	for i := range services {
		w.server.Set(bigService(i))
		w.server.Set(bigSlice(i, 0))
	}
	w.writeKubeconfig()
	w.start()
	t.Cleanup(w.stop)
	w.awaitPhase(Synced)

	type question struct {
		name  string
		qtype uint16
		want  string // the record's data
	}
	var questions []question
	for i := range services {
		slice := bigSlice(i, 0)
		for _, e := range slice.Endpoints {
			if !*e.Conditions.Ready {
				continue
			}
			host := strings.ReplaceAll(e.Addresses[0], ".", "-")
			if e.Hostname != nil {
				host = *e.Hostname
			}
			name := fmt.Sprintf("%s.service-%d.%s.svc.cluster.local.", host, i, slice.Namespace)
			reverse, err := dns.ReverseAddr(e.Addresses[0])
			if err != nil {
				t.Fatal(err)
			}
			questions = append(questions, question{name, dns.TypeA, e.Addresses[0]}, question{reverse, dns.TypePTR, name})
		}
	}
	rand.Shuffle(len(questions), func(i, j int) { questions[i], questions[j] = questions[j], questions[i] })
	for _, networks := range [][]netip.Prefix{nil, {netip.MustParsePrefix("172.16.0.0/12")}} {
		resolver := zone.NewResolver(zone.Config{
			Domains: []dnsname.Name{dnsname.MustParse("cluster.local")}, TTL: -1, NegativeTTL: -1, PodCIDRs: networks,
		})
		resolver.Set(w.snapshot())
		for _, q := range questions {
			query, err := new(dns.Msg).SetQuestion(q.name, q.qtype).Pack()
			if err != nil {
				t.Fatal(err)
			}
			wire, ok := resolver.AppendResponse(nil, query, dns.MinMsgSize)
			var m dns.Msg
			if err := m.Unpack(wire); !ok || err != nil || len(m.Answer) != 1 || dns.Field(m.Answer[0], 1) != q.want {
				t.Fatalf("%s %s: %v, %v, %v, want %s", q.name, dns.TypeToString[q.qtype], ok, err, m.Answer, q.want)
			}
		}
	}
}
