package netns

import (
	"net/netip"
	"os"
	"regexp"
	"strings"
	"testing"
)

// harmless matches the only lines that are allowed in a resolv.conf that we wrote. Backslashes come
// from NetworkManager, which escapes special bytes as a backslash and three digits.
var harmless = regexp.MustCompile(`^(#[ -~]*|search( [A-Za-z0-9._\\-]+)+|nameserver ` + regexp.QuoteMeta(nodeIP) + `)$`)

// Numbers of DHCP options (RFC 2132, RFC 3397).
const (
	optionRouter       = 3
	optionNameservers  = 6
	optionHostName     = 12
	optionDomainName   = 15
	optionRootPath     = 17
	optionNISDomain    = 40
	optionDomainSearch = 119
	optionPrivate      = 224
	optionProxy        = 252
)

// TestHostileDHCP: anyone may run a DHCP server. Its values must never be executed, and must not
// reach a file as anything but an address or a name.
func TestHostileDHCP(t *testing.T) {
	for _, row := range []struct {
		name   string
		option byte
		value  string
	}{
		{"line break", optionDomainName, "evil.example\nnameserver 192.0.2.66\n"},
		{"carriage return", optionDomainName, "evil.example\rnameserver 192.0.2.66"},
		{"substitution", optionDomainName, "$(touch /run/pwned).example"},
		{"backquotes", optionDomainName, "`touch /run/pwned`;touch /run/pwned&"},
		{"globs", optionDomainName, "* /etc/* ?"},
		{"keyword of resolv.conf", optionDomainName, "x options ndots:15"},
		{"invalid UTF-8", optionDomainName, "ev\xff\xfe\x80il.example"},
		{"escape sequence", optionDomainName, "\x1b[2Jevil.example"},
		{"NUL", optionDomainName, "evil\x00.example"},
		{"as long as can be", optionDomainName, strings.Repeat("a.", 120) + "example"},
		{"search with a line break", optionDomainSearch, "\x0cevil\nexample \x03com\x00"},
		{"search with a substitution", optionDomainSearch, "\x13$(touch /run/pwned)\x03com\x00"},
		{"search that loops", optionDomainSearch, "\x04evil\xc0\x00"},
		{"host name", optionHostName, "$(touch /run/pwned)\nnameserver 192.0.2.66"},
		{"variable", optionNISDomain, "x\nIP4_NAMESERVERS=192.0.2.66\n"},
		{"variable in a root path", optionRootPath, "x\nIP4_NAMESERVERS=192.0.2.66\n"},
		{"variable in a private option", optionPrivate, "x\nIP4_NAMESERVERS=192.0.2.66\n"},
		{"variable in a proxy's address", optionProxy, "x\nIP4_NAMESERVERS=192.0.2.66\n"},
		{"invalid addresses", optionNameservers, "\x00\x00\x00\x00\x7f\x00\x00\x01\xe0\x00\x00\x01\xff\xff\xff\xff\x0a\x4d\x00\x35"},
	} {
		t.Run(row.name, func(t *testing.T) {
			n := newNode(t, byRawDHCP(row.option, row.value))
			n.connect("eth0")
			n.await(right{Upstreams: []string{ns1}, AnySearch: true})
			n.checkHarmless()
		})
	}
}

// byRawDHCP runs the test's own DHCP server, which offers nodeIP, the router and ns1, unless the
// given option overrides one.
func byRawDHCP(number byte, value string) option {
	return func(s *setup) {
		s.raw = map[byte][]byte{optionRouter: ipv4(router), optionNameservers: ipv4(ns1)}
		s.raw[number] = []byte(value)
	}
}

func ipv4(addr string) []byte { return netip.MustParseAddr(addr).AsSlice() }

func (n *node) checkHarmless() {
	n.t.Helper()
	text := n.l.ReadFile(resolvConf)
	for line := range strings.Lines(text) {
		if !harmless.MatchString(strings.TrimSuffix(line, "\n")) {
			n.t.Errorf("resolv.conf has the line %q:\n%s", line, text)
		}
	}
	if _, err := os.Stat("/run/pwned"); err == nil {
		n.t.Error("a value of the DHCP server was executed")
	}
}
