package resolve

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
	"github.com/node-dns/node-dns/internal/test/policytest"
)

func TestLoopsAreFound(t *testing.T) {
	all := policytest.Servers("10.0.0.2", "10.0.0.3")
	var l Loops
	loop := map[nameserver.Server]bool{all[1]: true}
	var mu sync.Mutex
	asked := map[string]bool{}
	l.ask = func(_ context.Context, server nameserver.Server, qname string) {
		mu.Lock()
		defer mu.Unlock()
		if asked[qname] {
			t.Errorf("%s was queried twice", qname)
		}
		asked[qname] = true
		if loop[server] { // it returns the query to us, with the case of its choice
			l.IsProbe(dnsname.MustParse(strings.ToUpper(qname)))
		}
	}
	steps := []struct {
		name    string
		loops   bool // whether 10.0.0.3 loops
		changed bool
	}{
		{"one of two upstreams loops", true, true},
		{"still loops", true, false},
		{"no longer loops", false, true},
	}
	for _, step := range steps {
		loop[all[1]] = step.loops
		changed, err := l.Probe(t.Context(), all)
		if err != nil || changed != step.changed {
			t.Errorf("%s: changed %v, %v; want %v", step.name, changed, err, step.changed)
		}
		if _, found := l.Looping()[all[1]]; found != step.loops {
			t.Errorf("%s: found %v", step.name, l.Looping())
		}
		if _, found := l.Looping()[all[0]]; found {
			t.Errorf("%s: 10.0.0.2 does not loop", step.name)
		}
	}
}

func TestProbesEnd(t *testing.T) {
	var l Loops
	var last string
	l.ask = func(_ context.Context, _ nameserver.Server, qname string) { last = qname }
	if _, err := l.Probe(t.Context(), policytest.Servers("10.0.0.2")); err != nil {
		t.Fatal(err)
	}
	if l.IsProbe(dnsname.MustParse(last)) {
		t.Error("a probe of an earlier round is still known; its name could be used to exclude an upstream")
	}
	if l.IsProbe(dnsname.MustParse("www.example.com")) {
		t.Error("an arbitrary name is treated as a probe")
	}
}

// TestProbesAreBounded: the number of concurrent probes is limited. All upstreams used to be probed
// at once, each from its own socket.
func TestProbesAreBounded(t *testing.T) {
	var texts []string
	for i := range 100 {
		texts = append(texts, fmt.Sprintf("10.0.0.%d", i+1))
	}
	synctest.Test(t, func(t *testing.T) {
		var l Loops
		var now, most, all atomic.Int32
		l.ask = func(context.Context, nameserver.Server, string) {
			most.Store(max(most.Load(), now.Add(1)))
			all.Add(1)
			time.Sleep(loopProbeTimeout) // so that all that may start have started
			now.Add(-1)
		}
		if _, err := l.Probe(t.Context(), policytest.Servers(texts...)); err != nil {
			t.Fatal(err)
		}
		if most.Load() != loopProbes || all.Load() != 100 {
			t.Errorf("%d probes, at most %d at a time; want 100 and %d", all.Load(), most.Load(), loopProbes)
		}
	})
}
