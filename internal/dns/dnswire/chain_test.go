package dnswire

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"
)

func TestKeepChain(t *testing.T) {
	rows := []struct {
		name   string
		answer []string
		drop   []int // indices into answer
	}{
		{name: "plain answer", answer: []string{"www.example. 60 IN A 192.0.2.1", "www.example. 60 IN A 192.0.2.2"}},
		{name: "owner in capitals", answer: []string{"WWW.example. 60 IN A 192.0.2.1"}},
		{name: "a stray record", answer: []string{"www.example. 60 IN A 192.0.2.1", "bank.test. 60 IN A 6.6.6.6"}, drop: []int{1}},
		{name: "only stray records", answer: []string{"bank.test. 60 IN A 6.6.6.6"}, drop: []int{0}},
		{
			name:   "CNAME, RRSIG and a stray record",
			answer: []string{"www.example. 60 IN CNAME a.test.", "bank.test. 60 IN A 6.6.6.6", "A.test. 60 IN CNAME b.test.", "b.test. 60 IN A 192.0.2.1", "b.test. 60 IN RRSIG A 13 2 60 20300101000000 20200101000000 1 test. c2ln"},
			drop:   []int{1},
		},
		{name: "CNAMEs in any order", answer: []string{"b.test. 60 IN A 192.0.2.1", "a.test. 60 IN CNAME b.test.", "www.example. 60 IN CNAME a.test."}},
		{name: "an alias loop", answer: []string{"www.example. 60 IN CNAME a.test.", "a.test. 60 IN CNAME www.example."}},
		{name: "a second alias of the same name", answer: []string{"www.example. 60 IN CNAME a.test.", "www.example. 60 IN CNAME bank.test.", "bank.test. 60 IN A 6.6.6.6", "a.test. 60 IN A 192.0.2.1"}, drop: []int{2}},
		{
			name:   "DNAME with its synthesized CNAME",
			answer: []string{"example. 60 IN DNAME test.", "www.example. 60 IN CNAME www.test.", "www.test. 60 IN A 192.0.2.1"},
		},
		{name: "DNAME elsewhere", answer: []string{"bank.test. 60 IN DNAME evil.test.", "www.example. 60 IN A 192.0.2.1"}, drop: []int{0}},
		{name: "a record at the DNAME's target", answer: []string{"example. 60 IN DNAME test.", "test. 60 IN A 6.6.6.6"}, drop: []int{1}},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			m := &dns.Msg{Answer: rrs(t, row.answer...)}
			var want []string
			for i, rr := range m.Answer {
				if !slices.Contains(row.drop, i) {
					want = append(want, rr.String())
				}
			}
			keepChain(m, "www.example.", make(lowerNames))
			var got []string
			for _, rr := range m.Answer {
				got = append(got, rr.String())
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestChainIsBounded: a chain longer than any legitimate one is cut, in whatever order it comes.
func TestChainIsBounded(t *testing.T) {
	var answer []dns.RR
	for i := range 2000 {
		answer = append(answer, rrs(t, fmt.Sprintf("n%d.example. 60 IN CNAME n%d.example.", i, i+1))...)
	}
	slices.Reverse(answer)
	m := &dns.Msg{Answer: answer}
	if keepChain(m, "n0.example.", make(lowerNames)); len(m.Answer) != maxChain {
		t.Errorf("kept %d records, want %d", len(m.Answer), maxChain)
	}
}
