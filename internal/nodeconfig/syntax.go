package nodeconfig

import (
	"errors"
	"log/slog"
	"net/netip"
	"strings"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
)

// syntax is a parser for a string, and the expectation that a fault reports if it fails.
type syntax[T any] struct {
	expected string
	parse    func(string) (T, error)
}

// reason is an error with details, shown after "expected …, got …".
type reason string

func (r reason) Error() string { return string(r) }

// errSyntax is used if "expected …" is sufficient.
var errSyntax = errors.New("not as expected")

// because turns an error of another package into a reason. The error would repeat the text, which
// is already in the fault.
func because(err error) error {
	switch {
	case errors.Is(err, nameserver.ErrZone):
		return reason("a zone id that cannot be used")
	case errors.Is(err, nameserver.ErrPort):
		return reason("a port outside 1 to 65535")
	case errors.Is(err, nameserver.ErrName):
		return reason("an authentication name that is not a host name")
	case errors.Is(err, dnsname.ErrTooLong):
		return reason("longer than 255 bytes")
	case errors.Is(err, dnsname.ErrLabel):
		return reason("a label that is not 1 to 63 bytes long")
	}
	return errSyntax
}

var (
	asIP         = syntax[netip.Addr]{"an IP address", parseIP}
	asNodeIP     = syntax[netip.Addr]{"an IP address of the node", parseNodeIP}
	asIPPort     = syntax[nameserver.Server]{"IP:PORT such as 10.0.0.2:53", parseIPPort}
	asServer     = syntax[nameserver.Server]{"a nameserver such as 10.0.0.2, 10.0.0.2:5353 or dns+tls://9.9.9.9#dns.quad9.net", parseServer}
	asIPOrIPPort = syntax[nameserver.Server]{"IP or IP:PORT", parseIPOrIPPort}
	asBind       = syntax[netip.AddrPort]{"IP:PORT such as 127.0.0.1:53", parseBind}
	asListen     = syntax[Listen]{`"auto", "all", IP or IP:PORT`, parseListen}
	asPrefix     = syntax[netip.Prefix]{"a network such as 172.30.0.0/16", parsePrefix}
	asDomain     = syntax[dnsname.Name]{"a domain name such as cluster.local", parseDomain}
	asPath       = syntax[string]{"the path of a file", parsePath}
	asLevel      = syntax[slog.Level]{"debug, info, warn or error", parseLevel}
)

// parseIP accepts what OpenShift's net.ParseIP accepts: no zone IDs.
func parseIP(text string) (netip.Addr, error) {
	addr, err := netip.ParseAddr(text)
	switch {
	case err != nil:
		return netip.Addr{}, errSyntax
	case addr.Zone() != "":
		return netip.Addr{}, reason("a zone id cannot be used here")
	case addr.Unmap().IsMulticast():
		return netip.Addr{}, reason("multicast")
	}
	return addr.Unmap(), nil
}

func parseNodeIP(text string) (netip.Addr, error) {
	addr, err := parseIP(text)
	if err == nil && addr.IsUnspecified() {
		return netip.Addr{}, reason("unspecified")
	}
	return addr, err
}

// parseServer accepts every form of nameserver.Parse, except addresses that can never be queried:
// an unspecified address means this host on Linux (a loop), and a multicast group has no single
// answer.
func parseServer(text string) (nameserver.Server, error) {
	server, err := nameserver.Parse(text)
	addr := server.Addr.Addr()
	switch {
	case err != nil:
		return nameserver.Server{}, because(err)
	case addr.IsUnspecified():
		return nameserver.Server{}, reason("unspecified")
	case addr.IsMulticast(), addr == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return nameserver.Server{}, reason("not one host's address")
	}
	return server, nil
}

// parseIPPort parses the form of dnsNameservers. OpenShift also rejects an address without a port.
func parseIPPort(text string) (nameserver.Server, error) {
	if _, err := netip.ParseAddr(text); err == nil {
		return nameserver.Server{}, reason("an address without a port")
	}
	if _, err := netip.ParseAddrPort(text); err != nil {
		return nameserver.Server{}, errSyntax
	}
	return parseServer(text)
}

// parseIPOrIPPort uses port 53 if there is none.
func parseIPOrIPPort(text string) (nameserver.Server, error) {
	if strings.ContainsAny(text, "#/") {
		return nameserver.Server{}, errSyntax
	}
	return parseServer(text)
}

// parseBind parses dnsBindAddress. OpenShift only requires the syntax of net.SplitHostPort, so
// ":53" is valid there and means every address.
func parseBind(text string) (netip.AddrPort, error) {
	if strings.HasPrefix(text, ":") {
		text = "0.0.0.0" + text
	}
	bind, err := netip.ParseAddrPort(text)
	if err != nil {
		if _, err := netip.ParseAddr(text); err == nil {
			return netip.AddrPort{}, reason("an address without a port")
		}
		return netip.AddrPort{}, errSyntax
	}
	bind = netip.AddrPortFrom(bind.Addr().Unmap(), bind.Port())
	if bind.Addr().IsUnspecified() && bind.Port() != 0 {
		return bind, nil
	}
	server, err := parseServer(text)
	return server.Addr, err
}

func parseListen(text string) (Listen, error) {
	switch text {
	case "auto":
		return Listen{Auto: true}, nil
	case "all":
		return Listen{All: true}, nil
	}
	server, err := parseIPOrIPPort(text)
	if err == reason("unspecified") {
		return Listen{}, reason(`every address is "all"`)
	}
	return Listen{Addrs: []netip.AddrPort{server.Addr}}, err
}

func parsePrefix(text string) (netip.Prefix, error) {
	prefix, err := netip.ParsePrefix(text)
	switch {
	case err != nil:
		return netip.Prefix{}, errSyntax
	case prefix.Addr().Is4In6():
		return netip.Prefix{}, reason("an IPv4-mapped address")
	case prefix.Bits() == 0:
		return netip.Prefix{}, reason("every address")
	}
	return prefix.Masked(), nil
}

// parseDomain rejects the root, which would match every query, and wildcards: a domain includes all
// its subdomains anyway.
func parseDomain(text string) (dnsname.Name, error) {
	name, err := dnsname.Parse(text)
	switch {
	case err != nil:
		return dnsname.Name{}, because(err)
	case name.IsRoot():
		return dnsname.Name{}, reason("the root")
	case strings.Contains(text, "*"):
		return dnsname.Name{}, reason("a wildcard")
	}
	return name, nil
}

func parsePath(text string) (string, error) {
	switch {
	case strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return "", reason("a control character")
	case text == "":
		return "", errSyntax
	}
	return text, nil
}

func parseLevel(text string) (slog.Level, error) {
	switch text {
	case "debug":
		return slog.LevelDebug, nil
	case "info":
		return slog.LevelInfo, nil
	case "warn":
		return slog.LevelWarn, nil
	case "error":
		return slog.LevelError, nil
	}
	return 0, errSyntax
}
