package dnstest_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/test/dnstest"
)

const world = `
	www.example.com. 300 IN A 192.0.2.80
`

const (
	right   = "NOERROR www.example.com. A = 192.0.2.80"
	forged  = "NOERROR www.example.com. A = 6.6.6.6"
	soa     = " authority ns.invalid. hostmaster.invalid. 1 3600 600 86400 60"
	missing = "NXDOMAIN nx.example.com. A" + soa
)

// faultRow is what a client sees with given faults. A nil tcp means the same as over UDP, on a
// connection that stays open.
type faultRow struct {
	name    string
	faults  dnstest.Faults
	ask     string
	qtype   uint16
	options []dnstest.Option
	udp     []string
	tcp     []string
}

var edns = []dnstest.Option{dnstest.EDNS(1232)}

var faultRows = []faultRow{
	{name: "none", udp: []string{right}},
	{name: "none, name that does not exist", ask: "nx.example.com.", udp: []string{missing}},
	{name: "drop", faults: dnstest.Faults{Drop: true}},
	{name: "all lost", faults: dnstest.Faults{Loss: 1}},
	{name: "none lost", faults: dnstest.Faults{Loss: 0.0001}, udp: []string{right}},
	{name: "rcode", faults: dnstest.Faults{Rcode: dns.RcodeServerFailure}, udp: []string{"SERVFAIL www.example.com. A"}},
	{
		name: "rcode with EDNS", faults: dnstest.Faults{Rcode: dns.RcodeRefused}, options: edns,
		udp: []string{"REFUSED opt www.example.com. A"},
	},
	{name: "extended rcode without EDNS", faults: dnstest.Faults{Rcode: dns.RcodeBadCookie}, udp: []string{right}},
	{
		name: "extended rcode", faults: dnstest.Faults{Rcode: dns.RcodeBadCookie}, options: edns,
		udp: []string{"BADCOOKIE opt www.example.com. A"},
	},
	{name: "wrong ID", faults: dnstest.Faults{WrongID: true}, udp: []string{"wrong ID: " + forged}},
	{
		name: "wrong question", faults: dnstest.Faults{WrongQuestion: true},
		udp: []string{"NOERROR xww.example.com. A = 6.6.6.6"},
	},
	{
		name: "wrong question, name with x", faults: dnstest.Faults{WrongQuestion: true}, ask: "x.example.com.",
		udp: []string{"NOERROR y.example.com. A = 6.6.6.6"},
	},
	{
		name: "wrong question, root", faults: dnstest.Faults{WrongQuestion: true}, ask: ".",
		udp: []string{"NOERROR forged.invalid. A = 6.6.6.6"},
	},
	{
		name: "wrong type", faults: dnstest.Faults{WrongType: true},
		udp: []string{"NOERROR www.example.com. AAAA = 2001:db8:6666::6"},
	},
	{
		name: "wrong type, other than A", faults: dnstest.Faults{WrongType: true}, qtype: dns.TypeMX,
		udp: []string{forged},
	},
	{
		name: "wrong ID, other than an address", faults: dnstest.Faults{WrongID: true}, qtype: dns.TypeMX,
		udp: []string{"wrong ID: NOERROR www.example.com. MX = forged.invalid."},
	},
	{name: "no question", faults: dnstest.Faults{NoQuestion: true}, udp: []string{"NOERROR = 6.6.6.6"}},
	{
		name: "no question, with EDNS", faults: dnstest.Faults{NoQuestion: true}, options: edns,
		udp: []string{"NOERROR opt = 6.6.6.6"},
	},
	{
		name: "wrong source", faults: dnstest.Faults{WrongSource: true},
		udp: []string{"wrong source: " + forged}, tcp: []string{right, "open"},
	},
	{
		name: "wrong ID, question and type", faults: dnstest.Faults{WrongID: true, WrongQuestion: true, WrongType: true},
		udp: []string{"wrong ID: NOERROR xww.example.com. AAAA = 2001:db8:6666::6"},
	},
	{
		name: "forged failure", faults: dnstest.Faults{WrongID: true, Rcode: dns.RcodeNameError},
		udp: []string{"wrong ID: NXDOMAIN www.example.com. A"},
	},
	{
		name: "forgery of a name that does not exist", faults: dnstest.Faults{WrongID: true}, ask: "nx.example.com.",
		udp: []string{"wrong ID: NOERROR nx.example.com. A = 6.6.6.6"},
	},
	{name: "too large for UDP", faults: dnstest.Faults{MaxUDP: 63}, tcp: []string{right, "open"}},
	{name: "small enough for UDP", faults: dnstest.Faults{MaxUDP: 64}, udp: []string{right}},
	{
		name: "truncate", faults: dnstest.Faults{Truncate: true},
		udp: []string{"NOERROR tc www.example.com. A"}, tcp: []string{right, "open"},
	},
	{
		name: "truncate, name that does not exist", faults: dnstest.Faults{Truncate: true}, ask: "nx.example.com.",
		udp: []string{"NXDOMAIN tc nx.example.com. A"}, tcp: []string{missing, "open"},
	},
	{
		name: "truncated forgery", faults: dnstest.Faults{Truncate: true, WrongID: true}, options: edns,
		udp: []string{"wrong ID: NOERROR tc opt www.example.com. A"},
		tcp: []string{"wrong ID: NOERROR opt www.example.com. A = 6.6.6.6", "open"},
	},
	{
		name: "truncate and close TCP", faults: dnstest.Faults{Truncate: true, CloseTCP: true},
		udp: []string{"NOERROR tc www.example.com. A"}, tcp: []string{"closed"},
	},
	{
		name: "truncate and reset TCP", faults: dnstest.Faults{Truncate: true, ResetTCP: true},
		udp: []string{"NOERROR tc www.example.com. A"}, tcp: []string{"reset"},
	},
	{name: "garbage", faults: dnstest.Faults{Garbage: true}, udp: []string{"malformed, ID true"}},
	{
		name: "garbage with wrong ID", faults: dnstest.Faults{Garbage: true, WrongID: true},
		udp: []string{"malformed, ID false"},
	},
	{name: "empty", faults: dnstest.Faults{Empty: true}, udp: []string{"empty"}},
	{
		name: "cut", faults: dnstest.Faults{CutUDP: true},
		udp: []string{"malformed, ID true"}, tcp: []string{right, "open"},
	},
	{
		name: "FORMERR on EDNS", faults: dnstest.Faults{FormErrOnEDNS: true}, options: edns,
		udp: []string{"FORMERR www.example.com. A"},
	},
	{name: "FORMERR on EDNS, without", faults: dnstest.Faults{FormErrOnEDNS: true}, udp: []string{right}},
	{
		name: "bare FORMERR on EDNS", faults: dnstest.Faults{FormErrOnEDNS: true, NoQuestion: true}, options: edns,
		udp: []string{"FORMERR"},
	},
	{
		name: "bare FORMERR on EDNS, without", faults: dnstest.Faults{FormErrOnEDNS: true, NoQuestion: true},
		udp: []string{right},
	},
	{
		name: "NOTIMP on EDNS", faults: dnstest.Faults{NotImpOnEDNS: true}, options: edns,
		udp: []string{"NOTIMP www.example.com. A"},
	},
	{
		name: "BADVERS on EDNS", faults: dnstest.Faults{BadVersOnEDNS: true}, options: edns,
		udp: []string{"BADSIG opt www.example.com. A"}, // the library's name for 16
	},
	{name: "drop on EDNS", faults: dnstest.Faults{DropOnEDNS: true}, options: edns},
	{name: "drop on EDNS, without", faults: dnstest.Faults{DropOnEDNS: true}, udp: []string{right}},
	{name: "close TCP", faults: dnstest.Faults{CloseTCP: true}, udp: []string{right}, tcp: []string{"closed"}},
	{name: "reset TCP", faults: dnstest.Faults{ResetTCP: true}, udp: []string{right}, tcp: []string{"reset"}},
	{
		name: "silent, then reset TCP", faults: dnstest.Faults{Drop: true, ResetTCP: true},
		tcp: []string{"reset"},
	},
	{
		name: "no SOA", faults: dnstest.Faults{NoSOA: true}, ask: "nx.example.com.",
		udp: []string{"NXDOMAIN nx.example.com. A"},
	},
	{
		name: "extra records", ask: "www.example.com.",
		faults: dnstest.Faults{
			ExtraRR: "www.bank.example. A 6.6.6.7", ExtraAuthority: "example. NS ns.evil.example.", ExtraAdditional: "ns.evil.example. A 6.6.6.8",
		},
		options: edns,
		udp:     []string{"NOERROR opt www.example.com. A = 192.0.2.80 = 6.6.6.7 authority ns.evil.example. additional 6.6.6.8"},
	},
	{
		name: "extra records in a negative response", ask: "nx.example.com.",
		faults: dnstest.Faults{ExtraRR: "www.bank.example. A 6.6.6.7"},
		udp:    []string{"NXDOMAIN nx.example.com. A = 6.6.6.7" + soa},
	},
	{name: "wrong ID, then right", faults: dnstest.Faults{WrongID: true, ThenOK: true}, udp: []string{"wrong ID: " + forged, right}},
	{
		name: "wrong question, then right", faults: dnstest.Faults{WrongQuestion: true, ThenOK: true},
		udp: []string{"NOERROR xww.example.com. A = 6.6.6.6", right},
	},
	{
		name: "wrong source, then right", faults: dnstest.Faults{WrongSource: true, ThenOK: true},
		udp: []string{"wrong source: " + forged, right}, tcp: []string{right, "open"},
	},
	{name: "garbage, then right", faults: dnstest.Faults{Garbage: true, ThenOK: true}, udp: []string{"malformed, ID true", right}},
	{
		name: "failure, then right", faults: dnstest.Faults{Rcode: dns.RcodeServerFailure, ThenOK: true},
		udp: []string{"SERVFAIL www.example.com. A", right},
	},
	{
		name: "truncated, then right", faults: dnstest.Faults{Truncate: true, ThenOK: true},
		udp: []string{"NOERROR tc www.example.com. A", right}, tcp: []string{right, "open"},
	},
	{name: "nothing bad, then right", faults: dnstest.Faults{ThenOK: true}, udp: []string{right}},
	{name: "silence, then right", faults: dnstest.Faults{Drop: true, ThenOK: true}, udp: []string{right}},
	{
		name: "three copies, then right", faults: dnstest.Faults{WrongID: true, Copies: 3, ThenOK: true},
		udp: []string{"wrong ID: " + forged, "wrong ID: " + forged, "wrong ID: " + forged, right},
	},
	{name: "copies of a right response are one", faults: dnstest.Faults{Copies: 3}, udp: []string{right}},
}

func TestFaults(t *testing.T) {
	for _, row := range faultRows {
		t.Run(row.name, func(t *testing.T) {
			query := newQuery("www.example.com.", dns.TypeA, row.options...)
			if row.ask != "" {
				query.Question[0].Name = row.ask
			}
			if row.qtype != 0 {
				query.Question[0].Qtype = row.qtype
			}
			tcp := row.tcp
			if tcp == nil {
				tcp = append(slices.Clone(row.udp), "open")
			}
			server := dnstest.NewServer(t, world)
			server.SetFaults(row.faults)
			if got := seenOverTCP(t, server, query, tcp); !slices.Equal(got, tcp) {
				t.Errorf("over TCP\ngot  %q\nwant %q", got, tcp)
			}
			server.SetFaults(row.faults)
			if got := seenOverUDP(t, server, query); !slices.Equal(got, row.udp) {
				t.Errorf("over UDP\ngot  %q\nwant %q", got, row.udp)
			}
		})
	}
}

// TestCostlyInTurnAnswersChecks: on a busy machine a resolver checks a server by queries for other
// names. They ended the test program.
func TestCostlyInTurnAnswersChecks(t *testing.T) {
	raw := dnstest.CostlyInTurn(strings.Repeat("a.", 87), dns.TypeA, "a zone of the last alias alone")
	for _, name := range []string{".", "www.example.com."} {
		check := new(dns.Msg).SetQuestion(name, dns.TypeNS)
		query, err := check.Pack()
		if err != nil {
			t.Fatal(err)
		}
		var response dns.Msg
		if err := response.Unpack(raw(query)[0]); err != nil || !response.Response || response.Id != check.Id || len(response.Answer) > 0 {
			t.Errorf("%s: got %v, %v", name, &response, err)
		}
	}
}
