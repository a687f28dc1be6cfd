// Package nameserver has the address of a nameserver as a value, and the rules of precedence
// between sources that name nameservers for the same domain. Everything that reads or writes such
// an address uses its type: NetworkManager, resolv.conf, dnsmasq's server= lines, the admin's
// configuration, and sockets.
//
// It is separate from upstream, which collects the nameservers of a node, and from forward, which
// sends queries: this package sends one kind of query only, for a nameserver's own name. A Server
// from Parse is safe to write into a file: its text has no blanks, control characters or shell
// characters.
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

// A Server is the address of a nameserver. Servers are comparable with ==. The zero Server means
// none.
type Server struct {
	// Addr is the address and port. A link-local address has its zone id.
	Addr netip.AddrPort
	// TLS means DNS over TLS (RFC 7858). Such a server is never queried without TLS, and never
	// written where only an IP address is allowed.
	TLS bool
	// Name is the authentication domain name (RFC 8310 section 2) that the server's certificate
	// must have, in lower case and without a final dot. "" means that the certificate must have the
	// IP address. Only with TLS.
	Name string
	// Interface is the network interface for outgoing queries; "" leaves the choice to the routing
	// table. Not with TLS.
	Interface string
	// Source is the local address for outgoing queries, of Addr's family; the zero Addr leaves the
	// choice to the kernel. Not with TLS.
	Source netip.Addr
}

// A Handle is a Server as a pointer-sized value, for storing many references. The zero Handle has
// no Value.
type Handle = unique.Handle[Server]

// FromAddr returns the plain server at port 53 of addr, made canonical as by ParseAddr. For the
// zero Addr, and for an address with a zone id that ParseAddr rejects, it returns the zero Server.
func FromAddr(addr netip.Addr) Server {
	addr, err := canonicalAddr(addr)
	if err != nil {
		return Server{}
	}
	return Server{Addr: netip.AddrPortFrom(addr, Port)}
}

// IsZero reports whether s is the zero Server.
func (s Server) IsZero() bool { return s == Server{} }

// Plain reports whether s is queried over UDP and TCP without TLS. It is false for the zero Server.
func (s Server) Plain() bool { return s.Addr.IsValid() && !s.TLS }

// String returns the canonical form, which Parse accepts: "10.0.0.2", "10.0.0.2:5353",
// "fe80::1%eth0", "[fe80::1%eth0]:5353", "dns+tls://1.1.1.1",
// "dns+tls://[2620:fe::fe]:8853#dns.quad9.net". It omits the default port. The zero Server is "".
// Interface and Source follow in dnsmasq's syntax, which Parse does not accept:
// "10.0.0.2:5353@eth1@192.0.2.1".
func (s Server) String() string { return s.address() + s.via() }

// Join returns the servers as strings, separated by blanks.
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

// Dnsmasq returns s in the syntax of dnsmasq's server=: the address, "#port" unless the port is 53,
// "@interface" and "@source". It returns "" for a server that is not Plain: dnsmasq 2.90 has no DNS
// over TLS and fails to start with a URI ("bad port"). ParseDnsmasq is its inverse.
func (s Server) Dnsmasq() string {
	switch {
	case !s.Plain():
		return ""
	case s.Addr.Port() == Port:
		return s.Addr.Addr().String() + s.via()
	}
	return s.Addr.Addr().String() + "#" + strconv.Itoa(int(s.Addr.Port())) + s.via()
}

// MarshalText returns String as bytes. The zero Server is empty text.
func (s Server) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText accepts the output of MarshalText, and everything that Parse accepts. Empty text is
// the zero Server.
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
