package forward

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/test/dnstest"
)

// TestTrace: a trace shows each query that was sent, its transport and its result.
func TestTrace(t *testing.T) {
	for _, test := range []struct {
		name   string
		faults dnstest.Faults // of the first of two servers
		want   []string
	}{
		{name: "answers", want: []string{"asks ONE over UDP", "ONE answers NOERROR"}},
		{name: "REFUSED", faults: dnstest.Faults{Rcode: dns.RcodeRefused}, want: []string{
			"asks ONE over UDP", "ONE fails: REFUSED", "asks TWO over UDP", "TWO answers NOERROR",
		}},
		{name: "truncates", faults: dnstest.Faults{Truncate: true}, want: []string{
			"asks ONE over UDP", "ONE needs a different query", "asks ONE over TCP", "ONE answers NOERROR",
		}},
		{name: "no EDNS support", faults: dnstest.Faults{Rcode: dns.RcodeFormatError}, want: []string{
			"asks ONE over UDP", "ONE needs a different query", "asks ONE over UDP, without EDNS", "ONE fails: FORMERR", "asks TWO over UDP", "TWO answers NOERROR",
		}},
		{name: "answers another question", faults: dnstest.Faults{WrongQuestion: true}, want: []string{
			"asks ONE over UDP", "ONE sent an invalid response", "asks TWO over UDP", "TWO answers NOERROR",
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			servers, addresses := startServers(t, 2)
			servers[0].SetFaults(test.faults)
			f := newForward(t, patient, addresses...)
			q := clientQuery("www.example.", dns.TypeA)
			q.Inquiry = &dnsserver.Inquiry{Trace: dnsserver.NewTrace()}
			if _, err := f.ServeDNS(t.Context(), q); err != nil {
				t.Fatal(err)
			}
			names := strings.NewReplacer(addresses[0].String(), "ONE", addresses[1].String(), "TWO")
			var got []string
			steps, more := q.Inquiry.Trace.Steps()
			for _, step := range steps {
				got = append(got, names.Replace(step.What))
			}
			want := append([]string{"the route . leads to ONE (unknown), TWO (unknown)"}, test.want...)
			if diff := cmp.Diff(want, got); diff != "" || more != 0 {
				t.Errorf("%d more; (-want +got):\n%s", more, diff)
			}
		})
	}
}
