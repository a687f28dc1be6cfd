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

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/dns/dnswire"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
	"github.com/node-dns/node-dns/internal/test/policytest"
)

// newLoops returns a Loops, and a function that passes a query name to it as the listeners do.
func newLoops() (l *Loops, comesBack func(qname string) bool) {
	var isOwn dnsserver.IsOwn
	l = &Loops{Expect: func(f dnsserver.IsOwn) { isOwn = f }}
	return l, func(qname string) bool {
		var wire [dnswire.MaxName]byte
		end, err := dns.PackDomainName(qname, wire[:], 0, nil, false)
		return err == nil && isOwn != nil && isOwn(wire[:end])
	}
}

func TestLoopsAreFound(t *testing.T) {
	all := policytest.Servers("10.0.0.2", "10.0.0.3")
	l, comesBack := newLoops()
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
			comesBack(strings.ToUpper(qname))
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
		if changed := l.Probe(t.Context(), all); changed != step.changed {
			t.Errorf("%s: changed %v, want %v", step.name, changed, step.changed)
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
	l, comesBack := newLoops()
	var first string
	l.ask = func(_ context.Context, _ nameserver.Server, qname string) { first = qname }
	l.Probe(t.Context(), policytest.Servers("10.0.0.2"))
	if comesBack(first) {
		t.Error("the listeners still look for probes after the round")
	}
	l.ask = func(_ context.Context, _ nameserver.Server, qname string) {
		if comesBack(first) {
			t.Error("a probe of an earlier round is still known; its name could be used to exclude an upstream")
		}
		if comesBack("www.example.com.") || comesBack(strings.Repeat("0", 32)+ProbeZone) {
			t.Error("an arbitrary name is treated as a probe")
		}
		if !comesBack(qname) {
			t.Error("the probe in flight is not recognized")
		}
	}
	l.Probe(t.Context(), policytest.Servers("10.0.0.2"))
}

// TestProbesAreBounded: the number of concurrent probes is limited. All upstreams used to be probed
// at once, each from its own socket.
func TestProbesAreBounded(t *testing.T) {
	var texts []string
	for i := range 100 {
		texts = append(texts, fmt.Sprintf("10.0.0.%d", i+1))
	}
	synctest.Test(t, func(t *testing.T) {
		l, _ := newLoops()
		var now, most, all atomic.Int32
		l.ask = func(context.Context, nameserver.Server, string) {
			most.Store(max(most.Load(), now.Add(1)))
			all.Add(1)
			time.Sleep(loopProbeTimeout) // so that all that may start have started
			now.Add(-1)
		}
		l.Probe(t.Context(), policytest.Servers(texts...))
		if most.Load() != loopProbes || all.Load() != 100 {
			t.Errorf("%d probes, at most %d at a time; want 100 and %d", all.Load(), most.Load(), loopProbes)
		}
	})
}
