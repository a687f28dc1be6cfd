package forward

import (
	"testing"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/dns/exchange"
)

// clientQuery returns a query in the form that dnsserver passes on.
func clientQuery(name string, qtype uint16, change ...func(*dns.Msg)) *dnsserver.Query {
	msg := new(dns.Msg).SetQuestion(name, qtype)
	for _, c := range change {
		c(msg)
	}
	q := &dnsserver.Query{Msg: msg, Proto: dnsserver.UDP}
	q.Name, _ = dnsname.Parse(name) // zero if invalid, as in dnsserver
	return q
}

func withDO(m *dns.Msg)    { m.SetEdns0(4096, true) }
func withCD(m *dns.Msg)    { m.CheckingDisabled = true }
func withoutRD(m *dns.Msg) { m.RecursionDesired = false }

// withOptions adds data about the client, which must not go upstream (CVE-2025-5994: client subnets
// split equal questions; RFC 7873: a cookie is for one server).
func withOptions(m *dns.Msg) {
	m.SetEdns0(4096, false)
	opt := m.IsEdns0()
	opt.Option = append(opt.Option,
		&dns.EDNS0_SUBNET{Code: dns.EDNS0SUBNET, Family: 1, SourceNetmask: 24, Address: []byte{192, 0, 2, 0}},
		&dns.EDNS0_COOKIE{Code: dns.EDNS0COOKIE, Cookie: "0123456789abcdef"},
		&dns.EDNS0_NSID{Code: dns.EDNS0NSID},
		&dns.EDNS0_LOCAL{Code: 65001, Data: []byte("who asks")},
	)
}

func TestWire(t *testing.T) {
	const odd = `a\000\.b\255.example.`
	rows := []struct {
		name  string
		query *dnsserver.Query
		form  exchange.Form
		want  exchange.Question
		opt   bool
	}{
		{"plain client", clientQuery("a.example.", dns.TypeA), exchange.WithEDNS, exchange.Question{Name: "a.example.", Type: dns.TypeA, Class: dns.ClassINET, DO: false, CD: false, RD: true}, true},
		{"capitals", clientQuery("A.EXAMPLE.", dns.TypeA), exchange.WithEDNS, exchange.Question{Name: "a.example.", Type: dns.TypeA, Class: dns.ClassINET, DO: false, CD: false, RD: true}, true},
		{"DO and CD", clientQuery("a.example.", dns.TypeAAAA, withDO, withCD), exchange.WithEDNS, exchange.Question{Name: "a.example.", Type: dns.TypeAAAA, Class: dns.ClassINET, DO: true, CD: true, RD: true}, true},
		{"without RD", clientQuery("a.example.", dns.TypeA, withoutRD), exchange.WithEDNS, exchange.Question{Name: "a.example.", Type: dns.TypeA, Class: dns.ClassINET, DO: false, CD: false, RD: false}, true},
		{"options", clientQuery("a.example.", dns.TypeA, withOptions), exchange.WithEDNS, exchange.Question{Name: "a.example.", Type: dns.TypeA, Class: dns.ClassINET, DO: false, CD: false, RD: true}, true},
		{"without EDNS", clientQuery("a.example.", dns.TypeA, withDO), exchange.WithoutEDNS, exchange.Question{Name: "a.example.", Type: dns.TypeA, Class: dns.ClassINET, DO: true, CD: false, RD: true}, false},
		{"padded", clientQuery("a.example.", dns.TypeA), exchange.Padded, exchange.Question{Name: "a.example.", Type: dns.TypeA, Class: dns.ClassINET, DO: false, CD: false, RD: true}, true},
		{"unusual octets", clientQuery(odd, 666), exchange.WithEDNS, exchange.Question{Name: odd, Type: 666, Class: dns.ClassINET, DO: false, CD: false, RD: true}, true},
		{"root", clientQuery(".", dns.TypeNS), exchange.WithEDNS, exchange.Question{Name: ".", Type: dns.TypeNS, Class: dns.ClassINET, DO: false, CD: false, RD: true}, true},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			got := questionOf(row.query)
			if got != row.want {
				t.Fatalf("question %+v, want %+v", got, row.want)
			}
			wire, err := wireOf(got, row.form)
			if err != nil {
				t.Fatal(err)
			}
			checkWire(t, wire, row.want, row.form, row.opt)
		})
	}
}

// checkWire parses the message with miekg/dns, which is not the code that wrote it.
func checkWire(t *testing.T, wire []byte, want exchange.Question, as exchange.Form, wantOPT bool) {
	t.Helper()
	m := new(dns.Msg)
	if err := m.Unpack(wire); err != nil {
		t.Fatal(err)
	}
	asked := dns.Question{Name: want.Name, Qtype: want.Type, Qclass: want.Class}
	if len(m.Question) != 1 || m.Question[0] != asked || m.Response || m.Opcode != dns.OpcodeQuery ||
		m.RecursionDesired != want.RD || m.CheckingDisabled != want.CD || !m.AuthenticatedData {
		t.Errorf("message\n%v", m)
	}
	opt := m.IsEdns0()
	if (opt != nil) != wantOPT {
		t.Fatalf("OPT %v", opt)
	}
	if opt == nil {
		return
	}
	if opt.UDPSize() != 1232 || opt.Do() != want.DO || opt.Version() != 0 {
		t.Errorf("OPT %v", opt)
	}
	switch {
	case as != exchange.Padded && len(opt.Option) != 0:
		t.Errorf("options %v", opt.Option)
	case as == exchange.Padded && (len(wire)%paddedTo != 0 || len(opt.Option) != 1 || opt.Option[0].Option() != dns.EDNS0PADDING):
		t.Errorf("%d octets, options %v", len(wire), opt.Option)
	}
}

// wireOf returns the query for a question.
func wireOf(q exchange.Question, as exchange.Form) ([]byte, error) {
	k, err := q.AppendKey(nil)
	return exchange.AppendQuery(nil, 0, k, as, 1232), err
}
