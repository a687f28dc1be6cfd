package main

import (
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/node-dns/node-dns/internal/test/dnstest"
	"github.com/node-dns/node-dns/internal/test/manpage"
)

// TestGuidesQueries: the guide shows the actual output of query, except for times and the names of
// the test's nameservers. A script covers examples that need a cluster.
func TestGuidesQueries(t *testing.T) {
	const records = "example.com. 300 IN SOA ns.example.com. h.example.com. 1 2 3 4 5\nwww.example.com. 300 IN A 192.0.2.80\n"
	first, second := dnstest.NewServer(t, records), dnstest.NewServer(t, records)
	p := start(t, `mkdir -p $ROOT/etc && echo "search corp.example" >$ROOT/etc/resolv.conf &&
		exec node-dns --root $ROOT serve --listen 127.0.0.1:0 --upstream $FIRST --upstream $SECOND`, "FIRST="+first.Addr().String(), "SECOND="+second.Addr().String())
	p.await("it is ready", func() bool { return p.has("/run/node-dns/ready") })
	inTest := strings.NewReplacer("10.0.0.3", second.Addr().String())
	inGuide := strings.NewReplacer(first.Addr().String(), "10.0.0.2", second.Addr().String(), "10.0.0.3", "the command line", "NetworkManager eth0", "qr aa rd", "qr rd")
	times := regexp.MustCompile(` +\d+(\.\d+)?ms`)
	states := regexp.MustCompile(`\((up|unknown|down)\)`)
	second.SetFaults(dnstest.Faults{Drop: true}) // on a busy machine it would answer some queries first
	seen := 0
	for _, console := range manpage.Consoles(t, "../../docs/howto/inspect.md") {
		words, ok := strings.CutPrefix(console.Command, "node-dns query ")
		if !ok || strings.Contains(words, "-n default") {
			continue
		}
		seen++
		if strings.Contains(words, "--trace") {
			first.SetFaults(dnstest.Faults{Drop: true})
			second.SetFaults(dnstest.Faults{})
		}
		args := append([]string{"--root", p.root, "query"}, strings.Fields(inTest.Replace(words))...)
		got := resultOf(t, exec.Command("node-dns", args...))
		printed := times.ReplaceAllString(inGuide.Replace(got.out), " TIME")
		if strings.Contains(words, "--trace") { // on a busy machine there may be more steps
			printed = states.ReplaceAllString(printed, "(STATE)")
			for line := range strings.Lines(states.ReplaceAllString(times.ReplaceAllString(console.Output, " TIME"), "(STATE)")) {
				if !strings.Contains(printed, line) && !strings.Contains(line, "most of the time") {
					t.Errorf("%s: the guide has %q, which is not in the output\n%s", console.Command, line, got.out+got.errors)
				}
			}
			continue
		}
		if diff := cmp.Diff(times.ReplaceAllString(console.Output, " TIME"), printed); diff != "" {
			t.Errorf("%s: (-guide +output)\n%s\n%s", console.Command, diff, got.out+got.errors)
		}
	}
	if seen < 4 {
		t.Errorf("the guide has %d examples", seen)
	}
}
