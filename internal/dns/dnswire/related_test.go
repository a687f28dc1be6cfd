package dnswire

import (
	"strings"
	"testing"

	"github.com/miekg/dns"
)

func TestKeepRelated(t *testing.T) {
	const answer = "www.example. 60 IN A 192.0.2.1"
	rows := []struct {
		name                          string
		answer, authority, additional []string
		wantAuthority, wantAdditional string // owner names
	}{
		{
			"nameservers of the zone, with addresses",
			[]string{answer},
			[]string{"example. 60 IN NS ns.example.", "example. 60 IN NS NS.other."},
			[]string{"ns.example. 60 IN A 192.0.2.53", "ns.Other. 60 IN AAAA 2001:db8::53", "ns.example. 60 IN RRSIG A 8 2 60 20300101000000 20200101000000 1 example. AAAA"},
			"example. example.", "ns.example. ns.Other. ns.example.",
		},
		{"nameservers of another zone", []string{answer}, []string{"bank. 60 IN NS ns.bank.", "com. 60 IN NS ns.bank."}, []string{"ns.bank. 60 IN A 6.6.6.6"}, "", ""},
		{"zone with a similar suffix", []string{answer}, []string{"ample. 60 IN NS ns.example.", "w.example. 60 IN NS ns.example."}, nil, "", ""},
		{"child zone", []string{answer}, []string{"a.www.example. 60 IN NS ns.example."}, nil, "", ""},
		{"zone of a CNAME target", []string{"www.example. 60 IN CNAME cdn.test.", "cdn.test. 60 IN A 192.0.2.1"}, []string{"Test. 60 IN NS ns.test.", "example. 60 IN NS ns.test."}, nil, "Test. example.", ""},
		{"an address for the queried name", nil, []string{"example. 60 IN SOA ns.example. root.example. 1 2 3 4 5"}, []string{"www.example. 60 IN A 192.0.2.1"}, "example.", "www.example."},
		{"unrelated address", []string{answer}, nil, []string{"www.bank. 60 IN A 6.6.6.6"}, "", ""},
		{"address of a mail server", []string{"www.example. 60 IN MX 1 mail.example."}, nil, []string{"mail.example. 60 IN A 192.0.2.25", "mail.example.bank. 60 IN A 6.6.6.6"}, "", "mail.example."},
		{"address of a service target", []string{"www.example. 60 IN SRV 1 2 3 a.example.", "www.example. 60 IN HTTPS 1 b.example."}, nil, []string{"a.example. 60 IN A 192.0.2.1", "b.example. 60 IN A 192.0.2.2"}, "", "a.example. b.example."},
		{"proofs", nil, []string{
			"example. 60 IN SOA ns.example. root.example. 1 2 3 4 5", "a.example. 60 IN NSEC z.example. A", "a.example. 60 IN RRSIG NSEC 8 2 60 20300101000000 20200101000000 1 example. AAAA",
			"0p9mhaveqvm6t7vbl5lop2u3t2rp3tom.example. 60 IN NSEC3 1 1 12 aabbccdd 2t7b4g4vsa5smi47k61mv5bv1a22bojr A", "example. 60 IN DS 1 8 2 00",
		}, nil, "example. a.example. a.example. 0p9mhaveqvm6t7vbl5lop2u3t2rp3tom.example. example.", ""},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			m := new(dns.Msg).SetQuestion("www.example.", dns.TypeA)
			m.Answer, m.Ns, m.Extra = rrs(t, row.answer...), rrs(t, row.authority...), rrs(t, row.additional...)
			m.SetEdns0(1232, true)
			KeepRelated(m, "www.example.")
			if got := ownersIn(m.Ns); got != row.wantAuthority {
				t.Errorf("authority: got %q, want %q", got, row.wantAuthority)
			}
			if got := ownersIn(m.Extra); got != strings.TrimSpace(row.wantAdditional+" .") {
				t.Errorf("additional: got %q, want %q", got, row.wantAdditional)
			}
			if len(m.Answer) != len(row.answer) {
				t.Errorf("answer %v", m.Answer)
			}
		})
	}
}

// TestDropBeside: DropBeside removes records about names of bank. except SOA and proofs, which
// negative answers need.
func TestDropBeside(t *testing.T) {
	const signature = " 8 2 60 20300101000000 20200101000000 1 bank. AAAA"
	rows := []struct {
		name                          string
		authority, additional         []string
		wantAuthority, wantAdditional string // owner names
	}{
		{"nothing", nil, nil, "", ""},
		{"in-zone nameserver", []string{"example. 60 IN NS ns.example."}, []string{"ns.example. 60 IN A 192.0.2.53"}, "example.", "ns.example."},
		{"address from another zone", []string{"example. 60 IN NS ns.bank."}, []string{"ns.bank. 60 IN A 6.6.6.6", "ns.Bank. 60 IN RRSIG A" + signature}, "example.", ""},
		{"nameservers of another zone", []string{"bank. 60 IN NS ns.example.", "bank. 60 IN DS 1 8 2 00"}, []string{"ns.example. 60 IN A 192.0.2.53"}, "", "ns.example."},
		{"a negative answer", []string{"bank. 60 IN SOA ns.bank. root.bank. 1 2 3 4 5", "a.bank. 60 IN NSEC z.bank. A", "a.bank. 60 IN RRSIG NSEC" + signature}, nil, "bank. a.bank. a.bank.", ""},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			m := new(dns.Msg)
			m.Ns, m.Extra = rrs(t, row.authority...), rrs(t, row.additional...)
			m.SetEdns0(1232, true)
			isElsewhere := func(owner string) bool { return dns.IsSubDomain("bank.", owner) }
			drops := len(row.authority)+len(row.additional) > len(strings.Fields(row.wantAuthority+" "+row.wantAdditional))
			if got := HasBeside(m, isElsewhere); got != drops {
				t.Errorf("HasBeside is %v, want %v", got, drops)
			}
			DropBeside(m, isElsewhere)
			if got := ownersIn(m.Ns); got != row.wantAuthority {
				t.Errorf("authority: got %q, want %q", got, row.wantAuthority)
			}
			if got := ownersIn(m.Extra); got != strings.TrimSpace(row.wantAdditional+" .") {
				t.Errorf("additional: got %q, want %q", got, row.wantAdditional)
			}
		})
	}
}

func ownersIn(section []dns.RR) string {
	var owners []string
	for _, rr := range section {
		owners = append(owners, rr.Header().Name)
	}
	return strings.Join(owners, " ")
}

// rrs returns records as they come from a server.
func rrs(t testing.TB, texts ...string) []dns.RR {
	t.Helper()
	var all []dns.RR
	for _, text := range texts {
		rr, err := dns.NewRR(text)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, rr)
	}
	wire, err := Pack(&dns.Msg{Question: []dns.Question{{Name: "."}}, Answer: all})
	if err != nil {
		t.Fatal(err)
	}
	m, err := Unpack(wire)
	if err != nil {
		t.Fatal(err)
	}
	return m.Answer
}

// TestKeepAsked: DNSSEC records go only to clients that request them, by DO or by type.
func TestKeepAsked(t *testing.T) {
	const (
		rrsig = "a.example. 60 IN RRSIG A 13 2 60 20380101000000 20200101000000 1 example. c2ln"
		proof = "a.example. 60 IN RRSIG NSEC 13 2 60 20380101000000 20200101000000 1 example. c2ln"
		nsec  = "a.example. 60 IN NSEC b.example. A RRSIG NSEC"
		nsec3 = "0P9MHAVEQVM6T7VBL5LOP2U3T2RP3TOM.example. 60 IN NSEC3 1 0 0 - 2T7B4G4VSA5SMI47K61MV5BV1A22BOJR A RRSIG"
		soa   = "example. 60 IN SOA ns.example. hostmaster.example. 1 2 3 4 60"
	)
	tests := []struct {
		name                string
		qtype               uint16
		do                  bool
		answer, ns          []string
		wantAnswer, wantAll int
	}{
		{"DO", dns.TypeA, true, []string{"a.example. 60 IN A 192.0.2.1", rrsig}, []string{nsec, proof}, 2, 4},
		{"no DO", dns.TypeA, false, []string{"a.example. 60 IN A 192.0.2.1", rrsig}, []string{nsec, proof}, 1, 1},
		{"no DO, negative", dns.TypeTXT, false, nil, []string{soa, nsec, nsec3, proof}, 0, 1},
		{"no DO, RRSIG queried", dns.TypeRRSIG, false, []string{rrsig, proof}, nil, 2, 2},
		{"no DO, NSEC queried", dns.TypeNSEC, false, []string{nsec, proof}, nil, 1, 1},
		{"no DO, ANY", dns.TypeANY, false, []string{"a.example. 60 IN A 192.0.2.1", rrsig, nsec, proof}, nil, 4, 4},
		{"no DO, DS queried", dns.TypeDS, false, []string{"a.example. 60 IN DS 1 13 2 00FF"}, nil, 1, 1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			m := new(dns.Msg)
			for _, section := range []struct {
				text []string
				into *[]dns.RR
			}{{test.answer, &m.Answer}, {test.ns, &m.Ns}} {
				for _, text := range section.text {
					rr, err := dns.NewRR(text)
					if err != nil {
						t.Fatal(err)
					}
					*section.into = append(*section.into, rr)
				}
			}
			KeepAsked(m, "a.example.", test.qtype, test.do)
			if got := len(m.Answer) + len(m.Ns); len(m.Answer) != test.wantAnswer || got != test.wantAll {
				t.Errorf("%d records, %d of them answers:\n%s", got, len(m.Answer), strings.TrimSpace(m.String()))
			}
		})
	}
}
