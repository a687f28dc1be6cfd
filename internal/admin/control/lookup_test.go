package control

import (
	"strings"
	"testing"
	"time"

	"github.com/node-dns/node-dns/internal/test/golden"
)

// TestLookupTexts checks the output of query. Untrusted text must neither control the terminal nor
// start a line.
func TestLookupTexts(t *testing.T) {
	const hostile = "a\x1b[2J\nb\u202e"
	site := By{Who: "upstream", Server: "10.0.0.2", Domain: ".", Source: "NetworkManager eth0"}
	of := func(name string, change func(*Answer)) Step {
		a := Answer{Name: name, Type: "A", Class: "IN", Rcode: "NXDOMAIN", Flags: []string{"qr", "rd", "ra"}, By: site, Took: 1200 * time.Microsecond}
		change(&a)
		return Step{Name: name, Answers: []Answer{a}}
	}
	same := func(*Answer) {}
	for name, l := range map[string]Lookup{
		// Only the NXDOMAIN for the last name was shown, which blamed the site's server for a
		// failure of the cluster's.
		"the-first-one-fails": {Name: "kubernetes.default", Steps: []Step{
			of("kubernetes.default.svc.cluster.local.", func(a *Answer) {
				a.Rcode, a.By = "SERVFAIL", By{Who: "nobody"}
				a.Errors = []ExtendedError{{22, "No Reachable Authority", "no response from 172.30.0.10 (timed out)"}}
			}),
			of("kubernetes.default.", same),
		}},
		"failed-before": {Name: "www.example.", Steps: []Step{of("www.example.", func(a *Answer) {
			a.Rcode, a.By.Cached = "SERVFAIL", true
			a.Errors = []ExtendedError{{13, "Cached Error", "failed recently"}, {6, "DNSSEC Bogus", ""}}
		})}},
		// The reason was shown only if the first type failed.
		"the-second-type-fails": {Name: "www.example.", Found: true, Steps: []Step{{Name: "www.example.", Answers: []Answer{
			{Name: "www.example.", Type: "A", Class: "IN", Rcode: "NOERROR", By: site, Answer: []Record{{"www.example.", 60, "IN", "A", "192.0.2.80"}}},
			{Name: "www.example.", Type: "AAAA", Class: "IN", Rcode: "SERVFAIL", By: site, Errors: []ExtendedError{{22, "No Reachable Authority", "no response from 10.0.0.2 (timed out)"}}},
		}}}},
		"as-a-pod": {Name: "www.example.", Steps: []Step{of("www.example.", func(a *Answer) {
			a.Rcode, a.By, a.Client = "REFUSED", By{Who: "itself"}, &Client{Address: "10.128.0.7", Pod: "shop/web-0", Refused: true}
			a.Errors = []ExtendedError{{18, "Prohibited", "queries from this network are not allowed"}}
		})}},
		"traced": {Name: "www.example.", Steps: []Step{of("www.example.", func(a *Answer) {
			a.Took = 260 * time.Millisecond
			a.Trace = []TraceStep{{100 * time.Microsecond, "asks 10.0.0.3 over UDP"}, {250 * time.Millisecond, "asks 10.0.0.2 over UDP"}, {259 * time.Millisecond, "10.0.0.2 answers NXDOMAIN"}}
		})}},
		"nobody-answers": {Name: "www.example", Steps: []Step{of("www.example.", func(a *Answer) {
			a.Rcode, a.Failure, a.Flags, a.By = "", "timed out", nil, By{Who: "server", Server: "10.0.0.3", Transport: "UDP"}
		})}},
		"hostile": {Name: hostile, Steps: []Step{
			of(hostile, func(a *Answer) {
				a.Client, a.Failure, a.Trace = &Client{Address: hostile, Pod: hostile}, hostile, []TraceStep{{0, hostile}}
				a.Errors = []ExtendedError{{6, hostile, hostile}}
			}),
			of("b.", func(a *Answer) { a.Rcode, a.Failure, a.By.Who = "", hostile, "server" }),
		}},
		"found": {Name: "www", Found: true, Steps: []Step{
			of("www.cluster.local.", func(a *Answer) { a.By = By{Who: "cluster"} }),
			of("www.example.", func(a *Answer) {
				a.Rcode, a.By.Cached, a.By.Age = "NOERROR", true, 65*time.Second
				a.Answer = []Record{{"www.example.", 300, "IN", "CNAME", "web.example."}, {"web.example.", 60, "IN", "A", "192.0.2.80"}}
			}),
		}},
	} {
		t.Run(name, func(t *testing.T) {
			var text strings.Builder
			if err := l.WriteText(&text); err != nil {
				t.Fatal(err)
			}
			if strings.ContainsAny(text.String(), "\x1b\u202e") {
				t.Errorf("%q", text.String())
			}
			golden.Check(t, "testdata/lookup/"+name+".txt", text.String())
			if folded := narrow(t, l.WriteText); name == "the-first-one-fails" || name == "traced" {
				golden.Check(t, "testdata/lookup/"+name+"-60.txt", folded)
			}
			checkJSON(t, "testdata/lookup/"+name+".json", l)
		})
	}
}
