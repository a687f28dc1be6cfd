// Package alike compares node-dns with dnsmasq and unbound: the answers to the same queries, with
// the same upstream nameserver, and with the same configuration files.
package alike

import (
	"fmt"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/node-dns/node-dns/internal/test/daemontest"
	"github.com/node-dns/node-dns/internal/test/golden"
	"github.com/node-dns/node-dns/internal/test/lab"
)

func TestMain(m *testing.M) {
	runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + 2*daemontest.Receivers) // as in cmd/node-dns
	lab.Overlap(6)
	goleak.VerifyTestMain(m)
}

const (
	seed     = 1
	count    = 20_000
	inFlight = 48

	// ours is the node-dns.yaml that makes node-dns forward like dnsmasq and unbound.
	ours = "clusterDomain: cluster.test\nkubeconfig: none\ndomainNeeded: false\n"
)

// TestAlike sends the same queries to dnsmasq 2.90, unbound 1.17 and node-dns. A difference that no
// rule explains is an error, and so is a rule that explains no difference.
func TestAlike(t *testing.T) {
	lab.NeedPrograms(t, "dnsmasq", "unbound")
	upstream := site(t).Addr()
	servers := [them]netip.AddrPort{us: daemontest.Run(t, ours, upstream), dnsmasq: startDnsmasq(t, upstream), unbound: startUnbound(t, upstream)}
	found := &findings{began: time.Now(), times: map[string]int{}, laws: laws{}}
	all := queries(seed, count)
	var next atomic.Int64
	var asking sync.WaitGroup
	for range inFlight {
		asking.Go(func() {
			a, err := newAsker(servers)
			if err != nil {
				t.Error(err)
				return
			}
			defer a.close()
			for i := int(next.Add(1)) - 1; i < len(all); i = int(next.Add(1)) - 1 {
				answers, err := a.ask(all[i])
				if err != nil {
					t.Errorf("%s: %v", all[i], err)
					continue
				}
				found.take(all[i], answers)
			}
			found.addRepeats(a.repeats)
		})
	}
	asking.Wait()
	found.report(t)
}

// findings are the results of a run.
type findings struct {
	began time.Time

	mu          sync.Mutex // guards the fields below
	laws        laws
	broken      []string
	unexplained []string
	times       map[string]int // number of differences that each rule explained
	answered    [them]int
	repeats     [them]int // number of queries without a response
}

func (f *findings) take(q query, answers [them]answer) {
	var all []difference
	for _, peer := range []int{dnsmasq, unbound} {
		all = append(all, compare(q, peer, answers[us], answers[peer])...)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, a := range answers {
		if a.msg != nil {
			f.answered[i]++
		}
	}
	if fault := f.laws.check(q, answers[us]); fault != "" {
		f.broken = append(f.broken, fmt.Sprintf("%s: %s\n%s", q, fault, describe(answers[us])))
	}
	for _, d := range all {
		d.elapsed = answers[us].arrived.Sub(f.began)
		i := slices.IndexFunc(rules, func(r rule) bool { return r.explains(d) })
		if i < 0 {
			f.unexplained = append(f.unexplained, d.String())
			continue
		}
		f.times[rules[i].row()]++
	}
}

func (f *findings) addRepeats(repeats [them]int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, n := range repeats {
		f.repeats[i] += n
	}
}

func (f *findings) report(t *testing.T) {
	const enough = 10
	for _, text := range f.broken[:min(len(f.broken), enough)] {
		t.Error(text)
	}
	for _, text := range f.unexplained[:min(len(f.unexplained), enough)] {
		t.Error("no rule explains this: ", text)
	}
	if n := len(f.unexplained); n > enough {
		t.Errorf("%d differences are not explained by a rule", n)
	}
	if f.answered[us] != count || f.repeats[us] > 0 {
		t.Errorf("%d of %d answered, with %d retries", f.answered[us], count, f.repeats[us])
	}
	for _, r := range rules {
		if f.times[r.row()] == 0 && !r.sometimes {
			t.Errorf("no difference matches the rule %q for %s", r.name, names[r.peer])
		}
		t.Logf("%5d %s: %s", f.times[r.row()], names[r.peer], r.name)
	}
	t.Logf("%v of %d answered, with %v retries", f.answered, count, f.repeats)
}

// pageIntro is the text above the table of docs/appendix/alike.md.
const pageIntro = "# Differences from dnsmasq and unbound\n" +
	"\n" +
	"<!-- Written by `go test ./test/alike -run TestPage -update`. -->\n" +
	"\n" +
	"A test sends the same 20,000 queries to node-dns, dnsmasq 2.90 and unbound 1.17, over UDP and TCP,\n" +
	"in front of the same nameserver. It compares RCODE, flags, question, EDNS, the records of each\n" +
	"section, the order of aliases and addresses, TTLs within a second, case of letters, and size.\n" +
	"\n" +
	"The queries repeat names, so cached answers are compared too. They have all types, cases, EDNS\n" +
	"sizes, flags and options. The answers include chains and loops of aliases, DNAMEs, NODATA, NXDOMAIN,\n" +
	"texts that need TCP, and names with any octets and up to 255 of them.\n" +
	"\n" +
	"```sh\n" +
	"go test ./test/alike\n" +
	"```\n" +
	"\n" +
	"fails on a difference that is not in this table, and on a row without a difference. dnsmasq and\n" +
	"unbound have the configuration of their packages, except that they keep the order of records, and\n" +
	"that unbound neither validates nor omits records (`minimal-responses: no`). node-dns has\n" +
	"`domainNeeded: false`, like dnsmasq.\n" +
	"\n" +
	"| difference | node-dns | other |\n" +
	"|---|---|---|\n"

// TestPage checks that docs/appendix/alike.md has the rules.
func TestPage(t *testing.T) {
	var page strings.Builder
	page.WriteString(pageIntro)
	for _, r := range rules {
		page.WriteString(r.row() + "\n")
	}
	golden.Check(t, "../../docs/appendix/alike.md", page.String())
}
