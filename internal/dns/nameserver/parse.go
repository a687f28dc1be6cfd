package nameserver

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// NetworkManager's schemes (man nm-settings-nmcli, ipv4.dns, since 1.52).
const (
	schemeTLS = "dns+tls://"
	schemeUDP = "dns+udp://"
)

// maxText is the maximum length that Parse accepts. The longest valid text is a URI with an IPv6
// address, a zone id, a port and a name of 253 bytes.
const maxText = 400

// Errors from Parse match one of these.
var (
	ErrAddress = errors.New("not an IP address")
	ErrZone    = errors.New("zone id that is not an interface name")
	ErrPort    = errors.New("port outside 1 to 65535")
	ErrName    = errors.New("authentication name that is not a host name")
)

// Parse parses a nameserver in any of the forms that files and tools use, without surrounding
// blanks:
//
//	10.0.0.2  2001:db8::1  fe80::1%eth0          resolv.conf(5), NetworkManager
//	10.0.0.2:53  [2001:db8::1]:53  [::1]         node-config.yaml
//	10.0.0.2#5353  2001:db8::1#5353              dnsmasq
//	dns+udp://10.0.0.2:5353                      NetworkManager from 1.52
//	dns+tls://[2620:fe::fe]:853#dns.quad9.net    NetworkManager from 1.52
//
// The default port is 53, or 853 with TLS. Host names are rejected: a resolver cannot resolve the
// address of its own upstream. The address is processed as by ParseAddr.
func Parse(text string) (Server, error) {
	if len(text) > maxText {
		return Server{}, fmt.Errorf("parsing nameserver %q...: %w", text[:64], ErrAddress)
	}
	server, err := parse(text)
	if err != nil {
		return Server{}, fmt.Errorf("parsing nameserver %q: %w", text, err)
	}
	return server, nil
}

// MustParse is Parse for a string that is known to be valid. It panics if it is not.
func MustParse(text string) Server {
	server, err := Parse(text)
	if err != nil {
		panic(err)
	}
	return server
}

func parse(text string) (Server, error) {
	if rest, ok := cutScheme(text, schemeTLS); ok {
		host, name, named := strings.Cut(rest, "#")
		addr, err := parseHost(host, PortTLS)
		if err != nil {
			return Server{}, err
		}
		name, ok = canonicalName(name)
		if named && !ok {
			return Server{}, ErrName
		}
		return Server{Addr: addr, TLS: true, Name: name}, nil
	}
	if rest, ok := cutScheme(text, schemeUDP); ok {
		addr, err := parseHost(rest, Port)
		return Server{Addr: addr}, err
	}
	if host, port, ok := strings.Cut(text, "#"); ok {
		addr, err := ParseAddr(host)
		if err != nil {
			return Server{}, err
		}
		return withPort(addr, port)
	}
	addr, err := parseHost(text, Port)
	return Server{Addr: addr}, err
}

// cutScheme compares without case, because schemes have none (RFC 3986 section 3.1).
func cutScheme(text, scheme string) (rest string, ok bool) {
	if len(text) < len(scheme) || !strings.EqualFold(text[:len(scheme)], scheme) {
		return "", false
	}
	return text[len(scheme):], true
}

// parseHost parses ADDR, ADDR:PORT (IPv4), [ADDR] or [ADDR]:PORT.
func parseHost(text string, defaultPort uint16) (netip.AddrPort, error) {
	host, port, hasPort := text, "", false
	if inner, ok := strings.CutPrefix(text, "["); ok {
		var after string
		if host, after, ok = strings.Cut(inner, "]"); !ok {
			return netip.AddrPort{}, ErrAddress
		}
		if port, hasPort = strings.CutPrefix(after, ":"); !hasPort && after != "" {
			return netip.AddrPort{}, ErrAddress
		}
		if !strings.Contains(host, ":") {
			return netip.AddrPort{}, ErrAddress
		}
	} else if strings.Count(text, ":") == 1 {
		host, port, hasPort = strings.Cut(text, ":")
	}
	addr, err := ParseAddr(host)
	if err != nil {
		return netip.AddrPort{}, err
	}
	if !hasPort {
		return netip.AddrPortFrom(addr, defaultPort), nil
	}
	server, err := withPort(addr, port)
	return server.Addr, err
}

// ParseAddr parses an address as in resolv.conf(5). It makes the address canonical: an IPv4-mapped
// address becomes IPv4, and an address that is not link-local loses its zone id, which has no
// meaning there (RFC 4007 section 6) and which glibc also ignores (res_init.c). A link-local
// address keeps its zone id: the name or index of an interface, consisting of letters, digits, '-',
// '_' and '.'. It rejects forms of inet_aton(3) such as "10.1" or "010.0.0.1", because programs
// disagree on their meaning.
func ParseAddr(text string) (netip.Addr, error) {
	addr, err := netip.ParseAddr(text)
	if err != nil {
		// Not wrapped: netip quotes the string a second time without adding anything.
		return netip.Addr{}, ErrAddress
	}
	return canonicalAddr(addr)
}

func canonicalAddr(addr netip.Addr) (netip.Addr, error) {
	if !addr.IsValid() {
		return netip.Addr{}, ErrAddress
	}
	if zone := addr.Zone(); zone != "" && !validZone(zone) {
		return netip.Addr{}, ErrZone
	}
	if !linkLocal(addr) {
		addr = addr.WithZone("")
	}
	return addr.Unmap(), nil
}

func linkLocal(addr netip.Addr) bool {
	return addr.Is6() && (addr.IsLinkLocalUnicast() || addr.IsLinkLocalMulticast() || addr.IsInterfaceLocalMulticast())
}

// validZone accepts the index or name of an interface. The kernel accepts any name of up to 15
// bytes without '/', ':' and white space (dev_valid_name). Of these, only characters without a
// meaning to shells and file formats are allowed.
func validZone(zone string) bool {
	return len(zone) <= 15 && zone != "." && zone != ".." && onlyNameBytes(zone)
}

func withPort(addr netip.Addr, text string) (Server, error) {
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil || port == 0 || text[0] == '+' {
		return Server{}, ErrPort
	}
	return Server{Addr: netip.AddrPortFrom(addr, uint16(port))}, nil
}

func canonicalName(name string) (string, bool) {
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	if name == "" || len(name) > 253 || !onlyNameBytes(name) {
		return "", false
	}
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || len(label) > 63 {
			return "", false
		}
	}
	return name, true
}

func onlyNameBytes(s string) bool {
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_', c == '.':
		default:
			return false
		}
	}
	return true
}
