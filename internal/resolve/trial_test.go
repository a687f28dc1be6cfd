package resolve

import (
	"reflect"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
	"github.com/node-dns/node-dns/internal/policy"
	"github.com/node-dns/node-dns/internal/test/policytest"
)

// TestRouteTrial: the daemon is not ready after three failures in a row while another nameserver
// answers, and ready with the first answer.
func TestRouteTrial(t *testing.T) {
	const other = "192.0.2.1"
	type step struct {
		isAnswered bool
		reference  string
	}
	for _, test := range []struct {
		name  string
		steps []step
		want  string // r for ready and n for not ready, after each step
	}{
		{"the upstreams answer", []step{{true, ""}}, "r"},
		{"a slow start", []step{{false, ""}, {false, ""}, {true, ""}}, "rrr"},
		{"only the node's own nameserver answers", []step{{false, other}, {false, other}, {false, other}, {false, other}}, "rrnn"},
		{"an outage that began before", []step{{false, ""}, {false, ""}, {false, ""}, {false, ""}}, "rrrr"},
		{"the outage ends, but not through node-dns", []step{{false, ""}, {false, ""}, {false, ""}, {false, other}}, "rrrn"},
		{"the failure ends", []step{{false, other}, {false, other}, {false, other}, {true, ""}}, "rrnr"},
		{"one lost response of the other nameserver", []step{{false, other}, {false, other}, {false, other}, {false, ""}, {false, other}}, "rrnnn"},
		{"the other nameserver fails too", []step{{false, other}, {false, other}, {false, other}, {false, ""}, {false, ""}, {false, ""}}, "rrnnnr"},
	} {
		t.Run(test.name, func(t *testing.T) {
			u := trialRoute{Target: policy.Target{Domain: dnsname.Root()}}
			got, now := "", time.Unix(0, 0)
			for _, s := range test.steps {
				u.note(now, s.isAnswered, "SERVFAIL", s.reference)
				got += map[bool]string{true: "r", false: "n"}[u.verdict == ""]
			}
			if got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

// TestRouteTrialPauses: nameservers that do not answer get a question a minute at most, from each
// node.
func TestRouteTrialPauses(t *testing.T) {
	var u trialRoute
	now := time.Unix(0, 0)
	for i, want := range []time.Duration{0, 0, 5, 10, 20, 40, 60, 60, 60, 60, 60, 60, 60, 60, 60} {
		u.note(now, false, "SERVFAIL", "")
		got := time.Duration(0)
		if !u.next.IsZero() {
			got = u.next.Sub(now)
		}
		if got != want*time.Second {
			t.Errorf("after %d failures: %v, want %v", i+1, got, want*time.Second)
		}
	}
}

// TestKeepTrials: a route keeps its state until its nameservers change.
func TestKeepTrials(t *testing.T) {
	corp := policy.Target{Domain: dnsname.MustParse("corp.test"), Servers: policytest.Servers("10.0.0.4")}
	moved := policy.Target{Domain: corp.Domain, Servers: policytest.Servers("10.0.0.5")}
	again := policy.Target{Domain: corp.Domain, Servers: corp.Servers, References: []policy.Reference{{Server: nameserver.MustParse("10.0.0.2"), IsOther: true}}}
	lab := policy.Target{Domain: dnsname.MustParse("lab.test"), Servers: corp.Servers}
	before := []*trialRoute{{Target: corp, isPassed: true}}
	for _, test := range []struct {
		name   string
		routes []policy.Target
		want   []*trialRoute
	}{
		{"the same", []policy.Target{corp}, []*trialRoute{{Target: corp, isPassed: true}}},
		{"other references", []policy.Target{again}, []*trialRoute{{Target: again, isPassed: true}}},
		{"other nameservers", []policy.Target{moved}, []*trialRoute{{Target: moved}}},
		{"another domain", []policy.Target{lab, corp}, []*trialRoute{{Target: lab}, {Target: corp, isPassed: true}}},
		{"gone", nil, []*trialRoute{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := keepTrials(before, test.routes); !reflect.DeepEqual(got, test.want) {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

// TestTrialQuestion: the question for a route is one that its nameservers answer.
func TestTrialQuestion(t *testing.T) {
	for domain, want := range map[string]uint16{".": dns.TypeNS, "corp.test.": dns.TypeSOA} {
		if name, qtype := trialQuestion(dnsname.MustParse(domain)); name != domain || qtype != want {
			t.Errorf("%s: got %s %s", domain, name, dns.TypeToString[qtype])
		}
	}
}
