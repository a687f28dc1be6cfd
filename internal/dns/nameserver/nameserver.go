// Package nameserver is one nameserver's address as a value, and the rule whose word wins where several sources name nameservers for one
// domain. Everything that reads or writes an address shares its type: NetworkManager, resolv.conf, dnsmasq's server= lines, the admin's
// configuration, a socket.
//
// It is apart from upstream, which is about which nameservers a node was given, and from forward, which asks them: here nothing is read
// and nobody is asked. A Server that Parse returned is safe to write
// into a file: its text has no blanks, control characters or shell characters.
package nameserver

import (
	"net/netip"
	"strconv"
	"strings"
	"unique"
)

// The ports of DNS (RFC 1035 section 4.2) and of DNS over TLS (RFC 7858 section 3.1).
const (
	Port    = 53
	PortTLS = 853
)

// A Server is where a nameserver is reached. Servers are comparable with ==. The
// zero Server is none.
type Server struct {
	// Addr is the address, with the zone id of a link-local one, and the port.
	Addr netip.AddrPort
	// TLS means DNS over TLS (RFC 7858). Such a server is never asked in plain
	// text, and never written where only an IP address may stand.
	TLS bool
	// Name is the authentication domain name (RFC 8310 section 2) that the
	// server's certificate must have, in lower case and without a final dot. ""
	// means that the certificate must have the IP address. Only with TLS.
	Name string
	// Interface is the network interface that queries leave by; "" leaves it to the
	// routing table. Not with TLS.
	Interface string
	// Source is the local address that queries leave from, of Addr's family; the
	// zero Addr leaves it to the kernel. Not with TLS.
	Source netip.Addr
}

// A Handle is a Server that many remember: it is as large as a pointer. The zero Handle has no Value.
type Handle = unique.Handle[Server]

// FromAddr returns the plain server at port 53 of addr, which is made canonical
// as ParseAddr says. The zero Addr, and one with a zone id that ParseAddr
// refuses, give the zero Server.
func FromAddr(addr netip.Addr) Server {
	addr, err := canonicalAddr(addr)
	if err != nil {
		return Server{}
	}
	return Server{Addr: netip.AddrPortFrom(addr, Port)}
}

// IsZero reports whether s is none.
func (s Server) IsZero() bool { return s == Server{} }

// Plain reports whether s is asked over UDP and TCP without TLS. The zero Server
// is not plain.
func (s Server) Plain() bool { return s.Addr.IsValid() && !s.TLS }

// String returns the canonical form, which Parse reads back: "10.0.0.2",
// "10.0.0.2:5353", "fe80::1%eth0", "[fe80::1%eth0]:5353", "dns+tls://1.1.1.1",
// "dns+tls://[2620:fe::fe]:8853#dns.quad9.net". The default port is left out.
// The zero Server is "". Interface and Source follow as dnsmasq has them, which
// Parse does not read: "10.0.0.2:5353@eth1@192.0.2.1".
func (s Server) String() string { return s.address() + s.via() }

// Join is the servers' texts with blanks between them.
func Join(servers []Server) string {
	words := make([]string, len(servers))
	for i, server := range servers {
		words[i] = server.String()
	}
	return strings.Join(words, " ")
}

func (s Server) address() string {
	switch {
	case !s.Addr.IsValid():
		return ""
	case s.TLS:
		return s.uri()
	case s.Addr.Port() == Port:
		return s.Addr.Addr().String()
	}
	return s.Addr.String()
}

func (s Server) uri() string {
	host := s.Addr.String()
	if s.Addr.Port() == PortTLS {
		host = s.Addr.Addr().String()
		if s.Addr.Addr().Is6() {
			host = "[" + host + "]"
		}
	}
	if s.Name != "" {
		host += "#" + s.Name
	}
	return schemeTLS + host
}

// Dnsmasq returns what dnsmasq's server= takes: the address, followed by
// "#port" when the port is not 53, and by "@interface" and "@source". It is "" for
// a server that is not Plain: dnsmasq 2.90 has no DNS over TLS, and refuses to
// start on a URI ("bad port"). ParseDnsmasq reads it back.
func (s Server) Dnsmasq() string {
	switch {
	case !s.Plain():
		return ""
	case s.Addr.Port() == Port:
		return s.Addr.Addr().String() + s.via()
	}
	return s.Addr.Addr().String() + "#" + strconv.Itoa(int(s.Addr.Port())) + s.via()
}

// MarshalText returns String as bytes; the zero Server is empty text.
func (s Server) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads what MarshalText writes, and all that Parse reads; empty
// text is the zero Server.
func (s *Server) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*s = Server{}
		return nil
	}
	address, via, isVia := strings.Cut(string(text), "@")
	parsed, err := Parse(address)
	if err == nil && isVia {
		parsed, err = parsed.parseVia(via)
	}
	if err != nil {
		return err
	}
	*s = parsed
	return nil
}
