package upstream

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
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

const (
	// maxLineErrors bounds how many invalid lines ParseDnsmasqConf reports one by one.
	maxLineErrors = 20
	// maxLine is the longest line, in bytes, that dnsmasq reads as a whole: it breaks longer ones
	// in two (MAXDNAME, read_file in option.c).
	maxLine = 1024
)

// ParseDnsmasqConf parses a file that DnsmasqConf or an admin wrote: server= lines, comments and
// blank lines, with LF or CRLF, and with or without a final newline. A line may name several
// domains (server=/a/b/IP). Anything else is an error with its line number. The errors are joined,
// and the valid lines are still returned. Some forms that dnsmasq accepts in server= are refused:
// host names, @interface, /domain/ without an address, and // (names without a dot). Servers beyond
// MaxServers and maxRouted are dropped, which is an error too.
func ParseDnsmasqConf(data []byte) (Set, error) {
	p := confParser{gatherer: gatherer{hasLimits: true}}
	for line := range bytes.Lines(data) {
		p.number++
		if err := p.line(strings.TrimSpace(string(line))); err != nil {
			p.fault(err)
		}
	}
	return p.set(), errors.Join(append(p.errs, p.leftOut()...)...)
}

type confParser struct {
	gatherer
	number  int // line number, from 1
	errs    []error
	surplus []surplus
}

// surplus are the servers beyond a limit.
type surplus struct {
	why   string
	line  int // line of the first one
	first string
	count int
}

func (p *confParser) fault(err error) {
	switch {
	case len(p.errs) < maxLineErrors:
		p.errs = append(p.errs, fmt.Errorf("line %d: %w", p.number, err))
	case len(p.errs) == maxLineErrors:
		p.errs = append(p.errs, fmt.Errorf("line %d: too many errors; later ones are not reported", p.number))
	}
}

func (p *confParser) leftOut() []error {
	var errs []error
	for _, s := range p.surplus {
		errs = append(errs, fmt.Errorf("line %d: %s: ignoring %d, from %s on", s.line, s.why, s.count, s.first))
	}
	return errs
}

// stripComment removes a comment as dnsmasq does: '#' starts one at the start of a line or after
// white space. Elsewhere it precedes a port.
func stripComment(line string) string {
	for i := range len(line) {
		if line[i] == '#' && (i == 0 || line[i-1] == ' ' || line[i-1] == '\t') {
			return strings.TrimSpace(line[:i])
		}
	}
	return line
}

func (p *confParser) line(line string) error {
	if len(line) > maxLine {
		return fmt.Errorf("longer than %d bytes", maxLine)
	}
	line = stripComment(line)
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
		domains = []dnsname.Name{dnsname.Root()}
	}
	for _, domain := range domains {
		if why := p.add(Route{Domain: domain}, server); why != "" {
			p.noRoom(why, value)
		}
	}
	return nil
}

func (p *confParser) noRoom(why, value string) {
	i := slices.IndexFunc(p.surplus, func(s surplus) bool { return s.why == why })
	if i < 0 {
		i = len(p.surplus)
		p.surplus = append(p.surplus, surplus{why: why, line: p.number, first: cut(value)})
	}
	p.surplus[i].count++
}

// splitDomains splits /domain/domain/ from the address. No domains and no error means that the
// value has none.
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

// parseDnsmasqServer parses IP or IP#port. It refuses the other forms of nameserver.Parse, because
// dnsmasq refuses them and must be able to use the file again.
func parseDnsmasqServer(text string) (nameserver.Server, error) {
	host, _, _ := strings.Cut(text, "#")
	if _, err := nameserver.ParseAddr(host); err != nil {
		return nameserver.Server{}, fmt.Errorf("expected an address, or address#port, got %q: %w", cut(text), err)
	}
	return nameserver.Parse(text)
}

// maxQuoted bounds how much untrusted text is quoted, in bytes.
const maxQuoted = 64

func cut(text string) string {
	if len(text) <= maxQuoted {
		return text
	}
	return text[:maxQuoted] + "..."
}
