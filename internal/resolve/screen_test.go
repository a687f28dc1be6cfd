package resolve

import (
	"testing"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/test/dnstest"
)

// TestRebindHints: a browser connects to the address hints of an HTTPS record without querying
// other addresses.
func TestRebindHints(t *testing.T) {
	site := dnstest.NewServer(t, `
four.example. 60 IN HTTPS 1 . alpn=h2 ipv4hint=192.0.3.1,10.0.0.1
six.example. 60 IN HTTPS 1 . ipv6hint=2001:4860::1,fd00::1
svcb.example. 60 IN SVCB 1 x.example. port=53 ipv4hint=192.168.0.1
loop.example. 60 IN HTTPS 1 . ipv4hint=127.0.0.1
public.example. 60 IN HTTPS 1 . alpn=h2 ipv4hint=203.1.113.1 ipv6hint=2001:4860::1
none.example. 60 IN HTTPS 0 x.example.
private.corp. 60 IN HTTPS 1 . ipv4hint=10.0.0.1
`)
	for _, conf := range []struct {
		text    string
		blocked map[string]bool
	}{
		{"stop-dns-rebind\nrebind-domain-ok=/corp/\n", map[string]bool{"four.example.": true, "six.example.": true, "svcb.example.": true, "loop.example.": true}},
		{"stop-dns-rebind\nrebind-localhost-ok\n", map[string]bool{"four.example.": true, "six.example.": true, "svcb.example.": true, "private.corp.": true}},
		{"", nil},
	} {
		r := stillWith(t, "nodeName: node-7\nkubeconfig: none\nupstreams: [\""+site.Addr().String()+"\"]\n", conf.text, nil)
		c := twoServers(t, r).dial(t, "udp").wire
		for _, name := range []string{"four.example.", "six.example.", "svcb.example.", "loop.example.", "public.example.", "none.example.", "private.corp."} {
			qtype := dns.TypeHTTPS
			if name == "svcb.example." {
				qtype = dns.TypeSVCB
			}
			m := unpacked(t, exchangeOn(t, c, wireQuery(t, name, qtype)))
			if m.Rcode != dns.RcodeSuccess || (len(m.Answer) == 0) != conf.blocked[name] {
				t.Errorf("with %q: %s: got\n%v", conf.text, name, m)
			}
		}
	}
}

// TestChangedIsNotValidated: AD says that an answer is the zone's (RFC 4035 section 3.2.3). One
// that a rule has changed is not.
func TestChangedIsNotValidated(t *testing.T) {
	for _, test := range []struct {
		conf  string
		qtype uint16
		is    bool
	}{
		{"", dns.TypeA, true},
		{"", dns.TypeMX, true},
		{"filter-A\n", dns.TypeA, false},
		{"filter-AAAA\n", dns.TypeA, true},
		{"stop-dns-rebind\n", dns.TypeA, false},
		{"bogus-nxdomain=10.0.0.1\n", dns.TypeA, false},
		{"alias=10.0.0.1,192.0.2.1\n", dns.TypeA, false},
		{"host-record=www.example,fd00::1\n", dns.TypeMX, false},
		{"host-record=www.example,fd00::1\n", dns.TypeA, true},
	} {
		site := dnstest.NewServer(t, "")
		site.SetFaults(dnstest.Faults{Raw: func(query []byte) [][]byte {
			m := new(dns.Msg)
			if err := m.Unpack(query); err != nil {
				return nil
			}
			m = new(dns.Msg).SetReply(m)
			m.AuthenticatedData = true
			if m.Question[0].Qtype == dns.TypeA {
				m.Answer = []dns.RR{&dns.A{Hdr: dns.RR_Header{Name: "www.example.", Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 60}, A: []byte{10, 0, 0, 1}}}
			} else {
				m.Rcode = dns.RcodeNameError
			}
			wire, _ := m.Pack()
			return [][]byte{wire}
		}})
		r := stillWith(t, "nodeName: node-7\nkubeconfig: none\nupstreams: [\""+site.Addr().String()+"\"]\n", test.conf, nil)
		c := twoServers(t, r).dial(t, "udp").wire
		for range 2 { // from the upstream, then from the cache
			m := unpacked(t, exchangeOn(t, c, wireQuery(t, "www.example.", test.qtype, func(m *dns.Msg) { m.AuthenticatedData = true })))
			if m.AuthenticatedData != test.is {
				t.Errorf("with %q: got\n%v", test.conf, m)
			}
		}
	}
}
