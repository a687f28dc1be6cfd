package conformance

import (
	"testing"

	"github.com/miekg/dns"
)

// TestDeviationsAreCases: every row of the table belongs to a case.
func TestDeviationsAreCases(t *testing.T) {
	cases, err := Read("../../dns/zone/testdata")
	if err != nil {
		t.Fatal(err)
	}
	ids := map[string]bool{}
	for _, c := range cases {
		ids[c.ID] = true
	}
	for id := range deviations {
		if !ids[id] {
			t.Errorf("%s is not a case", id)
		}
	}
}

// TestJudge: a row of the table allows exactly one answer; without a row, only the peer's is
// allowed.
func TestJudge(t *testing.T) {
	response := func(rcode int, records ...string) *dns.Msg {
		m := &dns.Msg{MsgHdr: dns.MsgHdr{Rcode: rcode}}
		for _, text := range records {
			rr, err := dns.NewRR(text)
			if err != nil {
				t.Fatal(err)
			}
			m.Answer = append(m.Answer, rr)
		}
		return m
	}
	var alike, deviates Case
	alike.ID, alike.Expect.Rcode, alike.Expect.Answer = "alike", "NOERROR", []string{"a. 5 IN A 192.0.2.1"}
	deviates.ID, deviates.Expect.Rcode = "answer-table-coredns-1.15/137", "NOERROR"
	const ours = "ext-intnx.alpha.svc.cluster.local. 5 IN CNAME nosuch.alpha.svc.cluster.local."
	tests := []struct {
		name string
		c    Case
		got  *dns.Msg
		well bool
	}{
		{"the peer's", alike, response(dns.RcodeSuccess, "a. 5 IN A 192.0.2.1"), true},
		{"another TTL", alike, response(dns.RcodeSuccess, "a. 6 IN A 192.0.2.1"), false},
		{"another address", alike, response(dns.RcodeSuccess, "a. 5 IN A 192.0.2.2"), false},
		{"ours", deviates, response(dns.RcodeNameError, ours), true},
		{"the peer's where we deviate", deviates, response(dns.RcodeSuccess), false},
		{"neither", deviates, response(dns.RcodeServerFailure), false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if fault := test.c.Judge(test.got); (fault == "") != test.well {
				t.Errorf("judged %q", fault)
			}
		})
	}
}
