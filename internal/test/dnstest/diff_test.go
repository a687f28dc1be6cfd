package dnstest_test

import (
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/test/dnstest"
)

// message makes a response from zone-file lines, with "--" between sections.
func message(t *testing.T, text string, change func(*dns.Msg)) *dns.Msg {
	t.Helper()
	m := new(dns.Msg)
	section := 0
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "--" {
			section++
			continue
		}
		rr, err := dns.NewRR(line)
		if err != nil || rr == nil {
			t.Fatalf("%q: %v", line, err)
		}
		into := []*[]dns.RR{&m.Answer, &m.Ns, &m.Extra}[section]
		*into = append(*into, rr)
	}
	if change != nil {
		change(m)
	}
	return m
}

func TestDiff(t *testing.T) {
	const (
		a1 = "www.example.com. 60 IN A 192.0.2.1\n"
		a2 = "www.example.com. 60 IN A 192.0.2.2\n"
		a3 = "www.example.com. 59 IN A 192.0.2.1\n"
		ns = "example.com. 60 IN NS ns.example.com.\n"
	)
	flags := func(m *dns.Msg) { m.Authoritative, m.RecursionDesired, m.AuthenticatedData = true, true, true }
	ede := func(m *dns.Msg) {
		m.SetEdns0(1232, false)
		m.IsEdns0().Option = []dns.EDNS0{&dns.EDNS0_EDE{InfoCode: 22}, &dns.EDNS0_EDE{InfoCode: 3}}
	}
	rcode := func(rcode int) func(*dns.Msg) { return func(m *dns.Msg) { m.Rcode = rcode } }
	tests := []struct {
		name, want, got string
		change          func(*dns.Msg)
		diff            string
	}{
		{name: "nothing at all"},
		{name: "equal", want: a1 + a2, got: a1 + a2},
		{name: "another order", want: a2 + a1, got: a1 + a2},
		{name: "another order, ordered", want: ";; ordered\n" + a2 + a1, got: a1 + a2, diff: " ANSWER\n+another order:\n+" + a1 + "+" + a2},
		{name: "ordered", want: ";; ordered\n" + a1 + a2, got: a1 + a2},
		{name: "missing", want: a1 + a2, got: a1, diff: " ANSWER\n-" + a2},
		{name: "surplus", want: a1, got: a1 + a2, diff: " ANSWER\n+" + a2},
		{name: "surplus where nothing is wanted", got: a1, diff: " ANSWER\n+" + a1},
		{name: "twice wanted", want: a1 + a1, got: a1, diff: " ANSWER\n-" + a1},
		{name: "twice there", want: a1, got: a1 + a1, diff: " ANSWER\n+" + a1},
		{name: "TTL", want: a1, got: a3, diff: " ANSWER\n-" + a1 + "+" + a3},
		{name: "any TTL", want: "www.example.com. * IN A 192.0.2.1", got: a3},
		{name: "any TTL, no class", want: "www.example.com. * A 192.0.2.1", got: a3},
		{name: "any TTL of two", want: "www.example.com. * A 192.0.2.1\n" + a3, got: a3 + a1},
		{name: "any TTL, other data", want: "www.example.com. * A 192.0.2.9", got: a3, diff: " ANSWER\n-www.example.com. * IN A 192.0.2.9\n+" + a3},
		{name: "any TTL of a wildcard", want: "*.example.com. * TXT \"*\"", got: "*.example.com. 7 TXT \"*\""},
		{name: "case of the owner", want: "WWW.example.com. 60 IN A 192.0.2.1", got: a1},
		{name: "case in the data", want: "example.com. 60 IN NS NS.example.com.", got: ns, diff: " ANSWER\n-example.com. 60 IN NS NS.example.com.\n+" + ns},
		{name: "type", want: "www.example.com. 60 TXT 192.0.2.1", got: a1, diff: " ANSWER\n-www.example.com. 60 IN TXT \"192.0.2.1\"\n+" + a1},
		{name: "sections", want: a1 + ";; AUTHORITY\n" + ns + ";; ADDITIONAL\n" + a2, got: a1 + "--\n" + ns + "--\n" + a2},
		{name: "another section", want: ns, got: "--\n" + ns, diff: " ANSWER\n-" + ns + " AUTHORITY\n+" + ns},
		{name: "surplus in the additional section", want: a1, got: a1 + "--\n--\n" + a2, diff: " ADDITIONAL\n+" + a2},
		{name: "OPT does not count", want: a1, got: a1, change: ede},
		{name: "comments and blanks", want: "\n ; said\n\t" + a1 + "\n", got: a1},
		{name: "rcode", want: ";; NXDOMAIN", change: rcode(dns.RcodeNameError)},
		{name: "another rcode", want: ";; NXDOMAIN", diff: "-rcode NXDOMAIN\n+rcode NOERROR\n"},
		{name: "NOERROR unsaid", want: a1, got: a1, change: rcode(dns.RcodeServerFailure), diff: "-rcode NOERROR\n+rcode SERVFAIL\n"},
		{name: "BADVERS", want: ";; BADVERS", change: rcode(dns.RcodeBadVers)},
		{name: "unknown rcode", change: rcode(3841), diff: "-rcode NOERROR\n+rcode RCODE3841\n"},
		{name: "flags", want: ";; flags ad rd aa rd", change: flags},
		{name: "flags unsaid", change: flags},
		{name: "flag missing", want: ";; flags aa rd ra ad", change: flags, diff: "-flags aa rd ra ad\n+flags aa rd ad\n"},
		{name: "flag too much", want: ";; flags aa rd", change: flags, diff: "-flags aa rd\n+flags aa rd ad\n"},
		{name: "no flags", want: ";; flags", change: flags, diff: "-flags \n+flags aa rd ad\n"},
		{name: "truncated", want: ";; flags tc", change: func(m *dns.Msg) { m.Truncated = true }},
		{name: "extended errors", want: ";; ede 22 3", change: ede},
		{name: "extended errors unsaid", change: ede},
		{name: "another extended error", want: ";; ede 23", change: ede, diff: "-ede 23\n+ede 22 3\n"},
		{name: "no extended error", want: ";; ede", change: ede, diff: "-ede \n+ede 22 3\n"},
		{name: "extended error without OPT", want: ";; ede 22", diff: "-ede 22\n+ede \n"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if diff := dnstest.Diff(test.want, message(t, test.got, test.change)); diff != test.diff {
				t.Errorf("got\n%swant\n%s", diff, test.diff)
			}
		})
	}
}

// TestDiffOfTextThatCannotBeRead: a mistake in the wanted text is never mistaken for an empty one.
func TestDiffOfTextThatCannotBeRead(t *testing.T) {
	for name, want := range map[string]string{
		"no TTL":           "www.example.com. A 192.0.2.1",
		"TTL with a unit":  "www.example.com. 1h A 192.0.2.1",
		"too short":        "www.example.com. 60 A",
		"bad data":         "www.example.com. 60 A 192.0.2",
		"unknown rcode":    ";; NXRRDOMAIN",
		"rcode and more":   ";; NXDOMAIN please",
		"unknown flag":     ";; flags zz",
		"unknown section":  ";; QUESTION",
		"empty":            ";;",
		"directive":        "$GENERATE 60 60 60",
		"section and more": ";; ANSWER SECTION",
	} {
		t.Run(name, func(t *testing.T) {
			if diff := dnstest.Diff("\n"+want, new(dns.Msg)); !strings.HasPrefix(diff, "parsing the wanted response: line 2: ") {
				t.Errorf("got %q", diff)
			}
		})
	}
	if diff := dnstest.Diff("", nil); diff == "" {
		t.Error("a nil response is taken for an empty one")
	}
}

// failure records the message of a helper that fails its test.
type failure struct{ said string }

func (f *failure) Helper()                        {}
func (f *failure) Cleanup(func())                 {}
func (f *failure) Fatalf(format string, _ ...any) { f.said += format }

func TestExchangeFails(t *testing.T) {
	server := dnstest.NewServer(t, world)
	for name, faults := range map[string]dnstest.Faults{
		"no question":    {NoQuestion: true},
		"wrong question": {WrongQuestion: true},
		"wrong type":     {WrongType: true},
		"garbage":        {Garbage: true},
	} {
		t.Run(name, func(t *testing.T) {
			server.SetFaults(faults)
			var f failure
			if dnstest.Exchange(&f, server.Addr(), "www.example.com", dns.TypeA); f.said == "" {
				t.Error("accepted")
			}
		})
	}
	server.Down()
	var f failure
	if dnstest.ExchangeTCP(&f, server.Addr(), "www.example.com", dns.TypeA); f.said == "" {
		t.Error("accepted a response of a server that is down")
	}
}
