package upstream

import (
	"bytes"
	"fmt"

	"github.com/node-dns/node-dns/internal/dns/nameserver"
)

// DnsmasqConf returns the set as lines of dnsmasq.conf, as 99-origin-dns.sh wrote and dnsmasq reads
// them: "server=IP" for a default server, "server=/domain/IP" for a route's server, with "#port"
// after the address if it is not 53. It omits servers over TLS, with which dnsmasq would not start.
// The result is empty if no server is left.
func (s Set) DnsmasqConf() []byte {
	var text bytes.Buffer
	s = s.Normalize()
	for _, server := range s.Servers {
		if server.Plain() {
			fmt.Fprintf(&text, "server=%s\n", server.Dnsmasq())
		}
	}
	for _, route := range s.Routes {
		for _, server := range route.Servers {
			if server.Plain() {
				fmt.Fprintf(&text, "server=/%s/%s\n", route.Domain.Relative(), server.Dnsmasq())
			}
		}
	}
	return text.Bytes()
}

// ResolvConf returns the set as resolv.conf(5) lines "nameserver IP". It contains the plain default
// servers at port 53, because the format allows no others.
func (s Set) ResolvConf() []byte {
	var text bytes.Buffer
	for _, server := range s.Normalize().Servers {
		if server.Plain() && server.Addr.Port() == nameserver.Port {
			fmt.Fprintf(&text, "nameserver %s\n", server.Addr.Addr())
		}
	}
	return text.Bytes()
}
