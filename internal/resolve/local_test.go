package resolve

import (
	"context"
	"net/netip"
	"slices"
	"testing"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/dnsserver"
)

func TestLocal(t *testing.T) {
	const here, elsewhere = "192.0.2.10", "10.128.0.14"
	tests := []struct {
		name       string
		client     string
		qname      string
		qtype      uint16
		class      uint16
		config     string // node-dns.yaml
		handedOn   bool
		rcode      int
		firstValue string // of the first answer
	}{
		{name: "name with a dot is passed on", qname: "www.example.com.", qtype: dns.TypeA, handedOn: true},
		{name: "name without a dot is not forwarded", qname: "printer.", qtype: dns.TypeA, rcode: dns.RcodeNameError},
		{name: "name without a dot in local data", qname: "host.", qtype: dns.TypeA, handedOn: true},
		{name: "AAAA of a name without a dot, mixed case", qname: "Printer.", qtype: dns.TypeAAAA, rcode: dns.RcodeNameError},
		{name: "NS of a top-level domain, as in dnsmasq", qname: "com.", qtype: dns.TypeNS, handedOn: true},
		{name: "NS of the root", qname: ".", qtype: dns.TypeNS, handedOn: true},
		{name: "name without a dot with its own route", qname: "corp.", qtype: dns.TypeA, handedOn: true},
		{name: "name without a dot, domainNeeded off", qname: "printer.", qtype: dns.TypeA, config: "domainNeeded: false\n", handedOn: true},
		{name: "A of localhost", qname: "localhost.", qtype: dns.TypeA, firstValue: "127.0.0.1"},
		{name: "AAAA below localhost", qname: "a.LocalHost.", qtype: dns.TypeAAAA, firstValue: "::1"},
		{name: "MX of localhost", qname: "localhost.", qtype: dns.TypeMX},
		{name: "notlocalhost is another name", qname: "notlocalhost.example.", qtype: dns.TypeA, handedOn: true},
		{name: "PTR of 127.0.0.1", qname: "1.0.0.127.in-addr.arpa.", qtype: dns.TypePTR, firstValue: "localhost."},
		{name: "A of the reverse name of 127.0.0.1", qname: "1.0.0.127.in-addr.arpa.", qtype: dns.TypeA},
		{name: "PTR of ::1", qname: zoneOfLoopback6, qtype: dns.TypePTR, firstValue: "localhost."},
		{name: "PTR above 127.0.0.1", qname: "0.127.In-Addr.arpa.", qtype: dns.TypePTR},
		{name: "PTR of another loopback address", qname: "53.0.0.127.in-addr.arpa.", qtype: dns.TypePTR, rcode: dns.RcodeNameError},
		{name: "PTR below 127.0.0.1", qname: "x.1.0.0.127.in-addr.arpa.", qtype: dns.TypePTR, rcode: dns.RcodeNameError},
		{name: "PTR of another network", qname: "1.0.0.227.in-addr.arpa.", qtype: dns.TypePTR, handedOn: true},
		{name: "onion (RFC 7686)", qname: "abc.Onion.", qtype: dns.TypeA, rcode: dns.RcodeNameError},
		{name: "onion name in local data", qname: "host.onion.", qtype: dns.TypeA, handedOn: true},
		{name: "onion name with a route", qname: "corp.onion.", qtype: dns.TypeA, handedOn: true},
		{name: "invalid (RFC 6761)", qname: "www.invalid.", qtype: dns.TypeMX, rcode: dns.RcodeNameError},
		{name: "invalid itself", qname: "invalid.", qtype: dns.TypeNS, rcode: dns.RcodeNameError},
		{name: "notinvalid is another one", qname: "notinvalid.", qtype: dns.TypeNS, handedOn: true},
		{name: "version.bind", qname: "version.bind.", qtype: dns.TypeTXT, class: dns.ClassCHAOS, firstValue: "node-dns 1.0"},
		{name: "version.bind is for this host only", client: elsewhere, qname: "version.bind.", qtype: dns.TypeTXT, class: dns.ClassCHAOS, rcode: dns.RcodeRefused},
		{name: "cachesize.bind", qname: "CacheSize.bind.", qtype: dns.TypeTXT, class: dns.ClassCHAOS, firstValue: "77"},
		{name: "cachesize.bind is for this host only", client: elsewhere, qname: "cachesize.bind.", qtype: dns.TypeTXT, class: dns.ClassCHAOS, rcode: dns.RcodeRefused},
		{name: "unknown CHAOS name", qname: "secrets.bind.", qtype: dns.TypeTXT, class: dns.ClassCHAOS, rcode: dns.RcodeRefused},
		{name: "class HESIOD", qname: "www.example.com.", qtype: dns.TypeTXT, class: dns.ClassHESIOD, rcode: dns.RcodeNotImplemented},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			const ways = "routes: [{domain: corp, servers: [192.0.2.52]}, {domain: corp.onion, servers: [192.0.2.52]}]\n"
			r := stillWith(t, ways+test.config, "host-record=host,host.onion,192.0.2.7\n", nil)
			handedOn := false
			end := func(context.Context, *state, *dnsserver.Query, rest) (*dns.Msg, error) {
				handedOn = true
				return nil, nil
			}
			r.order = append(slices.Clone(order[:5]), handler{name: "the rest", handle: end})
			m, err := rest{r, r.state.Load(), selfAt, false}.ServeDNS(t.Context(), query(t, test.client, here, test.qname, test.qtype, test.class))
			if err != nil || handedOn != test.handedOn {
				t.Fatalf("handed on: %v, error %v; want %v", handedOn, err, test.handedOn)
			}
			if handedOn {
				return
			}
			if len(m.Ns) > 0 {
				t.Errorf("the answer can be cached: %v", m.Ns)
			}
			if m.Rcode != test.rcode || firstValue(m) != test.firstValue {
				t.Errorf("rcode %s, %q; want %s, %q", dns.RcodeToString[m.Rcode], firstValue(m),
					dns.RcodeToString[test.rcode], test.firstValue)
			}
		})
	}
}

func query(t *testing.T, client, fallback, qname string, qtype, class uint16) *dnsserver.Query {
	t.Helper()
	if client == "" {
		client = fallback
	}
	m := new(dns.Msg).SetQuestion(qname, qtype)
	if class != 0 {
		m.Question[0].Qclass = class
	}
	q := &dnsserver.Query{Msg: m, Client: netip.AddrPortFrom(netip.MustParseAddr(client), 4242), Proto: dnsserver.UDP}
	q.Name, _ = dnsname.Parse(qname)
	return q
}

func firstValue(m *dns.Msg) string {
	if len(m.Answer) == 0 {
		return ""
	}
	switch rr := m.Answer[0].(type) {
	case *dns.A:
		return rr.A.String()
	case *dns.AAAA:
		return rr.AAAA.String()
	case *dns.TXT:
		return rr.Txt[0]
	case *dns.PTR:
		return rr.Ptr
	}
	return m.Answer[0].String()
}
