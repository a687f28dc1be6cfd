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
