package main

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/admin/control"
)

// asked formats a question as NAME TYPES CLASS SERVER FLAGS.
func asked(q control.LookupQuestion) string {
	words := []string{q.Name, strings.Join(q.Types, ","), q.How.Class, "", ""}
	if q.Direct != nil {
		words[3] = fmt.Sprintf("%s tcp=%v", q.Direct.Server, q.Direct.TCP)
	}
	if q.How.DNSSEC || q.How.CD {
		words[4] = fmt.Sprintf("do=%v cd=%v", q.How.DNSSEC, q.How.CD)
	}
	return strings.Join(strings.Fields(strings.Join(words, " ")), " ")
}

// TestToASCII: toASCII accepts names in the format of cache dump.
func TestToASCII(t *testing.T) {
	for _, name := range []string{`a\ b.example.`, `a\032b.example`, `\;\"\@.example.`} {
		if got, err := toASCII(name); err != nil || got != name {
			t.Errorf("%s: got %q, %v", name, got, err)
		}
	}
	if got, err := toASCII("a b.example"); err == nil {
		t.Errorf("blank: got %q", got)
	}
}

// twoHosts is a resolver that knows two hosts.
func twoHosts(host string) (netip.Addr, error) {
	switch host {
	case "ns.example":
		return netip.MustParseAddr("192.0.2.53"), nil
	case "ns6.example":
		return netip.MustParseAddr("2001:db8::53"), nil
	}
	return netip.Addr{}, errors.New("it does not exist")
}

// TestReadQuestions has a row for each way to write a question and for each mistake.
func TestReadQuestions(t *testing.T) {
	for _, test := range []struct {
		name, words string
		flags       queryFlags
		want        string // questions separated by ";", or part of the error
	}{
		{name: "a name", words: "www.example", want: "www.example"},
		{name: "a name and a type", words: "www.example mx", want: "www.example MX"},
		{name: "the type first", words: "TYPE65 www.example", want: "www.example TYPE65"},
		{name: "class, type and name", words: "CH TXT version.bind", want: "version.bind TXT CH"},
		{name: "the only word is a name", words: "mx", want: "mx"},
		{name: "the argument after a type is a name", words: "mx ns", want: "ns MX"},
		{name: "names", words: "a.example b.example A", want: "a.example A; b.example A"},
		{name: "a type by flag", words: "mx ns", flags: queryFlags{qtype: "aaaa"}, want: "mx AAAA; ns AAAA"},
		{name: "an address", words: "192.0.2.80", want: "80.2.0.192.in-addr.arpa. PTR"},
		{name: "an address of IPv6", words: "2001:db8::1", want: "1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa. PTR"},
		{name: "an address with its type", words: "192.0.2.80 PTR", want: "80.2.0.192.in-addr.arpa. PTR"},
		{name: "an address as a name", words: "192.0.2.80 A", want: "192.0.2.80 A"},
		{name: "an address and a name", words: "192.0.2.80 www.example", want: "80.2.0.192.in-addr.arpa. PTR; www.example"},
		{name: "-x", words: "", flags: queryFlags{reverse: "192.0.2.80"}, want: "80.2.0.192.in-addr.arpa. PTR"},
		{name: "-x with a type", words: "TXT", flags: queryFlags{reverse: "192.0.2.80"}, want: "80.2.0.192.in-addr.arpa. TXT"},
		{name: "-x of no address", flags: queryFlags{reverse: "www"}, want: `-x "www": expected an address`},
		{name: "letters beyond ASCII", words: "_sip._tcp.Exämple.com", want: "_sip._tcp.xn--exmple-cua.com"},
		{name: "a full stop of Japanese", words: "例。jp", want: "xn--fsq.jp"},
		{name: "a letter that IDNA 2003 wrote otherwise", words: "straße.de", want: "xn--strae-oqa.de"},
		{name: "invalid in IDNA", words: "xn--ü.example", want: "expected a name: idna"},
		{name: "escapes", words: `a\032b.example`, want: `a\032b.example`},
		{name: "a control character", words: "a\x1bb", want: `"a\x1bb": expected a name`},
		{name: "no UTF-8", words: "a\xffb", want: `"a\xffb": expected a name`},
		{name: "an empty label", words: "a..b", want: `"a..b": expected a name`},
		{name: "a name that is too long", words: strings.Repeat("a.", 130), want: "expected a name"},
		{name: "nothing", want: "expected a name"},
		{name: "a server", words: "www.example @192.0.2.53", want: "www.example 192.0.2.53 tcp=false"},
		{name: "a server over TCP", words: "@[2001:db8::53]:5353 www.example", flags: queryFlags{tcp: true, how: control.Question{DNSSEC: true}}, want: "www.example [2001:db8::53]:5353 tcp=true do=true cd=false"},
		{name: "a server over TLS", words: "www.example @192.0.2.53#dns.example", flags: queryFlags{tls: true, how: control.Question{CD: true}}, want: "www.example dns+tls://192.0.2.53#dns.example tcp=false do=false cd=true"},
		{name: "a server over TLS, by its scheme", words: "www.example @dns+tls://192.0.2.53", want: "www.example dns+tls://192.0.2.53 tcp=false"},
		{name: "TLS with another scheme", words: "a @dns+udp://192.0.2.53", flags: queryFlags{tls: true}, want: "--tls cannot be combined with another protocol"},
		{name: "TCP and TLS", words: "a @192.0.2.53", flags: queryFlags{tcp: true, tls: true}, want: "--tcp and --tls cannot be combined"},
		{name: "a server and a client", words: "a @192.0.2.53", flags: queryFlags{how: control.Question{As: "10.0.0.1"}}, want: "--as cannot be used with @SERVER"},
		{name: "two servers", words: "a @192.0.2.53 @192.0.2.54", want: "expected one server, not 2"},
		{name: "a server by name", words: "a @ns.example", want: "a 192.0.2.53 tcp=false"},
		{name: "a server by name and port", words: "a @ns.example:5353", flags: queryFlags{tcp: true}, want: "a 192.0.2.53:5353 tcp=true"},
		{name: "a server by name with IPv6", words: "a @ns6.example:5353", want: "a [2001:db8::53]:5353 tcp=false"},
		{name: "a server by name over TLS", words: "a @ns.example", flags: queryFlags{tls: true}, want: "a dns+tls://192.0.2.53#ns.example tcp=false"},
		{name: "a server by name that does not exist", words: "a @missing.example", want: "@missing.example: it does not exist"},
		{name: "a server by name with an invalid port", words: "a @ns.example:x", want: "@ns.example:x: expected an address"},
		{name: "a server that is no address", words: "a @192.0.2.256", want: "@192.0.2.256: expected an address"},
		{name: "a server that is no name", words: "a @ns..example", want: "@ns..example: expected an address"},
		{name: "a server that is empty", words: "a @", want: "@: expected an address"},
		{name: "--tcp of the daemon", words: "a", flags: queryFlags{tcp: true}, want: "--tcp requires @SERVER"},
		{name: "--tls of the daemon", words: "a", flags: queryFlags{tls: true}, want: "--tls requires @SERVER"},
		{name: "an unknown type", words: "www.example BOGUS", want: `unknown record type "BOGUS"; expected a type such as AAAA or TYPE65, or write "bogus." for the name`},
		{name: "a type that is nearly one", words: "www.example CNAM", want: `unknown record type "CNAM"; did you mean CNAME?`},
		{name: "a type beyond 16 bits", words: "www.example TYPE65536", want: `unknown record type "TYPE65536"`},
		{name: "an unknown type by flag", words: "a", flags: queryFlags{qtype: "TXTT"}, want: `unknown record type "TXTT"; did you mean TXT?`},
		{name: "names in capitals", words: "WEB SHOP", want: "WEB; SHOP"},
		{name: "a name in capitals with a type", words: "WEB A", want: "WEB A"},
		{name: "too many names", words: strings.Repeat("x ", maxQueryNames+1), want: "17 names: expected at most 16"},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.flags.lookup = twoHosts
			questions, err := readQuestions(strings.Fields(test.words), test.flags)
			var got []string
			for _, q := range questions {
				got = append(got, asked(q))
			}
			if err != nil && strings.Contains(err.Error(), test.want) {
				return
			}
			if text := strings.Join(got, "; "); err != nil || text != test.want {
				t.Errorf("%s, %v; want %s", text, err, test.want)
			}
		})
	}
}

// FuzzReadQuestions: regardless of the arguments, the names are in ASCII and fit in a message, and
// the types exist.
func FuzzReadQuestions(f *testing.F) {
	for _, words := range []string{"www.example A @192.0.2.53", "exämple.com 例。jp MX", "192.0.2.80 ::1 fe80::1%eth0", "A CH BOGUS a..b", "a\\032b\xff", "@dns+tls://192.0.2.53#x", "a @dns+tls://ns6.example:1"} {
		f.Add(words, "", "", false)
		f.Add(words, "192.0.2.1", "TXT", true)
	}
	f.Fuzz(func(t *testing.T, words, reverse, qtype string, tls bool) {
		questions, err := readQuestions(strings.Split(words, " "), queryFlags{reverse: reverse, qtype: qtype, tls: tls, lookup: twoHosts})
		if err == nil && (len(questions) == 0 || len(questions) > maxQueryNames+1) {
			t.Fatalf("%d questions", len(questions))
		}
		for _, q := range questions {
			if strings.ContainsFunc(q.Name, func(r rune) bool { return r <= ' ' || r > '~' }) {
				t.Errorf("not in ASCII: %q", q.Name)
			}
			for _, text := range append(q.Types, "A") {
				m, err := (control.Question{Name: q.Name, Type: text, Class: q.How.Class}).Message()
				if err != nil {
					t.Fatal(err)
				}
				if _, err := m.Pack(); err != nil && dns.CountLabel(m.Question[0].Name) > 0 {
					t.Errorf("%q %s: %v", q.Name, text, err)
				}
			}
		}
	})
}
