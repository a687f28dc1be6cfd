package upstream

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/node-dns/node-dns/internal/dnsname"
	"github.com/node-dns/node-dns/internal/nameserver"
)

// DnsmasqConf returns the set as lines of dnsmasq.conf, as 99-origin-dns.sh
// wrote them and dnsmasq reads them: "server=IP" for a default server,
// "server=/domain/IP" for a route's, "#port" behind the address when it is not
// 53. Servers over TLS are left out: dnsmasq would not start. It is empty when
// nothing can be said.
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

// ResolvConf returns the set as resolv.conf(5) lines, "nameserver IP" each: the
// plain default servers at port 53, since nothing else can stand there.
func (s Set) ResolvConf() []byte {
	var text bytes.Buffer
	for _, server := range s.Normalize().Servers {
		if server.Plain() && server.Addr.Port() == nameserver.Port {
			fmt.Fprintf(&text, "nameserver %s\n", server.Addr.Addr())
		}
	}
	return text.Bytes()
}

// maxLineErrors bounds how many bad lines ParseDnsmasqConf tells one by one.
const maxLineErrors = 20

// ParseDnsmasqConf reads what DnsmasqConf wrote, or an admin: server= lines,
// comments and blank lines, with or without a final newline, LF or CRLF. A line
// may name several domains (server=/a/b/IP). Anything else is an error that says
// its line, joined with the others; the good lines are returned with it. Of what
// dnsmasq reads in server= these are refused: host names, @interface,
// /domain/ without an address, and // (names without a dot).
func ParseDnsmasqConf(data []byte) (Set, error) {
	var set Set
	var errs []error
	number := 0
	for line := range bytes.Lines(data) {
		number++
		err := set.addLine(stripComment(strings.TrimSpace(string(line))))
		switch {
		case err == nil:
		case len(errs) < maxLineErrors:
			errs = append(errs, fmt.Errorf("line %d: %w", number, err))
		case len(errs) == maxLineErrors:
			errs = append(errs, fmt.Errorf("line %d and maybe more: too many errors", number))
		}
	}
	return set.Normalize(), errors.Join(errs...)
}

// stripComment cuts a comment as dnsmasq does: '#' begins one at the start of a
// line or after white space; elsewhere it stands before a port.
func stripComment(line string) string {
	for i := range len(line) {
		if line[i] == '#' && (i == 0 || line[i-1] == ' ' || line[i-1] == '\t') {
			return strings.TrimSpace(line[:i])
		}
	}
	return line
}

func (s *Set) addLine(line string) error {
	if line == "" {
		return nil
	}
	key, value, _ := strings.Cut(line, "=")
	if strings.TrimSpace(key) != "server" {
		return fmt.Errorf("expected server=, got %q", cut(line))
	}
	value = strings.TrimSpace(value)
	domains, text, err := splitDomains(value)
	if err != nil {
		return err
	}
	server, err := parseDnsmasqServer(text)
	if err != nil {
		return err
	}
	if domains == nil {
		s.Servers = append(s.Servers, server)
	}
	for _, domain := range domains {
		s.Routes = append(s.Routes, Route{Domain: domain, Servers: []nameserver.Server{server}})
	}
	return nil
}

// splitDomains cuts /domain/domain/ from the address. No domains and no error
// means that the value has none.
func splitDomains(value string) (domains []dnsname.Name, server string, err error) {
	rest, ok := strings.CutPrefix(value, "/")
	if !ok {
		return nil, value, nil
	}
	parts := strings.Split(rest, "/")
	for _, part := range parts[:len(parts)-1] {
		domain, err := dnsname.Parse(part)
		if err != nil {
			return nil, "", err
		}
		domains = append(domains, domain)
	}
	if domains == nil {
		return nil, "", fmt.Errorf("expected server=/domain/address, got %q", cut(value))
	}
	return domains, parts[len(parts)-1], nil
}

// parseDnsmasqServer reads IP or IP#port. The other forms of nameserver.Parse
// are refused, because dnsmasq, to which the file goes back, refuses them.
func parseDnsmasqServer(text string) (nameserver.Server, error) {
	host, _, _ := strings.Cut(text, "#")
	if _, err := nameserver.ParseAddr(host); err != nil {
		return nameserver.Server{}, fmt.Errorf("expected an address, or address#port, got %q: %w", cut(text), err)
	}
	return nameserver.Parse(text)
}

// maxQuoted bounds how much of a foreign text, in bytes, is repeated.
const maxQuoted = 64

func cut(text string) string {
	if len(text) <= maxQuoted {
		return text
	}
	return text[:maxQuoted] + "..."
}
