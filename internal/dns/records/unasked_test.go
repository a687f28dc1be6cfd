package records

import (
	"strings"
	"testing"

	"github.com/miekg/dns"
)

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
