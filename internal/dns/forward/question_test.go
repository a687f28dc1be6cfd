package forward

import (
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/dnsserver"
)

// clientQuery is a query as dnsserver hands it over.
func clientQuery(name string, qtype uint16, change ...func(*dns.Msg)) *dnsserver.Query {
	msg := new(dns.Msg).SetQuestion(name, qtype)
	for _, c := range change {
		c(msg)
	}
	q := &dnsserver.Query{Msg: msg, Proto: dnsserver.UDP}
	q.Name, _ = dnsname.Parse(name) // zero when it is none, as dnsserver has it
	return q
}

func withDO(m *dns.Msg)    { m.SetEdns0(4096, true) }
func withCD(m *dns.Msg)    { m.CheckingDisabled = true }
func withoutRD(m *dns.Msg) { m.RecursionDesired = false }

// What a client says about itself stays here (CVE-2025-5994: client subnets split
// equal questions; RFC 7873: a cookie is for one server).
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
		form  form
		want  question
		opt   bool
	}{
		{"plain client", clientQuery("a.example.", dns.TypeA), withEDNS, question{"a.example.", dns.TypeA, dns.ClassINET, false, false, true}, true},
		{"capitals", clientQuery("A.EXAMPLE.", dns.TypeA), withEDNS, question{"a.example.", dns.TypeA, dns.ClassINET, false, false, true}, true},
		{"DO and CD", clientQuery("a.example.", dns.TypeAAAA, withDO, withCD), withEDNS, question{"a.example.", dns.TypeAAAA, dns.ClassINET, true, true, true}, true},
		{"without RD", clientQuery("a.example.", dns.TypeA, withoutRD), withEDNS, question{"a.example.", dns.TypeA, dns.ClassINET, false, false, false}, true},
		{"options", clientQuery("a.example.", dns.TypeA, withOptions), withEDNS, question{"a.example.", dns.TypeA, dns.ClassINET, false, false, true}, true},
		{"without EDNS", clientQuery("a.example.", dns.TypeA, withDO), withoutEDNS, question{"a.example.", dns.TypeA, dns.ClassINET, true, false, true}, false},
		{"padded", clientQuery("a.example.", dns.TypeA), padded, question{"a.example.", dns.TypeA, dns.ClassINET, false, false, true}, true},
		{"any octets", clientQuery(odd, 666), withEDNS, question{odd, 666, dns.ClassINET, false, false, true}, true},
		{"root", clientQuery(".", dns.TypeNS), withEDNS, question{".", dns.TypeNS, dns.ClassINET, false, false, true}, true},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			got := questionOf(row.query)
			if got != row.want {
				t.Fatalf("question %+v, want %+v", got, row.want)
			}
			wire, err := got.wire(row.form, defaultUDPSize)
			if err != nil {
				t.Fatal(err)
			}
			checkWire(t, wire, row.want, row.form, row.opt)
		})
	}
}

// checkWire reads the message with miekg/dns, which did not write it.
func checkWire(t *testing.T, wire []byte, want question, as form, wantOPT bool) {
	t.Helper()
	m := new(dns.Msg)
	if err := m.Unpack(wire); err != nil {
		t.Fatal(err)
	}
	asked := dns.Question{Name: want.name, Qtype: want.qtype, Qclass: want.qclass}
	if len(m.Question) != 1 || m.Question[0] != asked || m.Response || m.Opcode != dns.OpcodeQuery ||
		m.RecursionDesired != want.rd || m.CheckingDisabled != want.cd || !m.AuthenticatedData {
		t.Errorf("message\n%v", m)
	}
	opt := m.IsEdns0()
	if (opt != nil) != wantOPT {
		t.Fatalf("OPT %v", opt)
	}
	if opt == nil {
		return
	}
	if opt.UDPSize() != 1232 || opt.Do() != want.do || opt.Version() != 0 {
		t.Errorf("OPT %v", opt)
	}
	switch {
	case as != padded && len(opt.Option) != 0:
		t.Errorf("options %v", opt.Option)
	case as == padded && (len(wire)%paddingBlock != 0 || len(opt.Option) != 1 || opt.Option[0].Option() != dns.EDNS0PADDING):
		t.Errorf("%d octets, options %v", len(wire), opt.Option)
	}
}

// A name of any length must be padded to a whole block.
func TestPaddingOfEveryLength(t *testing.T) {
	for n := 1; n <= 63; n++ {
		wire, err := question{name: strings.Repeat("a", n) + ".example."}.wire(padded, defaultUDPSize)
		if err != nil || len(wire)%paddingBlock != 0 {
			t.Errorf("label of %d: %d octets, %v", n, len(wire), err)
		}
	}
}

func TestNameTooLong(t *testing.T) {
	if _, err := (question{name: strings.Repeat("a.", 200)}).wire(withEDNS, defaultUDPSize); err == nil {
		t.Error("packed a name of 400 octets")
	}
}
