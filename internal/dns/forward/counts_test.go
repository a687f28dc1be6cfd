package forward

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/exchange"
	"github.com/node-dns/node-dns/internal/test/dnstest"
)

// TestCounts: the counters that dnsmasq keeps per server and in total.
func TestCounts(t *testing.T) {
	t.Parallel()
	servers, addresses := startServers(t, 1)
	var changes atomic.Int32
	f := newForward(t, func(c *Config) {
		c.Hedge, c.Silence = 200*time.Millisecond, 600*time.Millisecond // tolerates a busy machine
		c.Deadline = time.Second
		c.Changed = func() { changes.Add(1) }
	}, addresses...)
	ask := func(name string) { _, _, _ = askFor(t, f, name, dns.TypeA) }
	servers[0].SetFaultsFor("refused.example.", dnstest.Faults{Rcode: dns.RcodeRefused})
	servers[0].SetFaultsFor("silent.example.", dnstest.Faults{Drop: true})
	ask("www.example.")
	ask("nowhere.example.")
	ask("refused.example.")
	state, stats := stateOf(f, addresses[0]), f.Stats()
	if state.Queries != 3 || state.NXDomain != 1 || state.Refusals != 1 || state.Retries != 0 || state.Failures != 0 {
		t.Errorf("got server state %+v", state)
	}
	for i, name := range exchange.RcodeNames {
		want := map[string]uint64{"NOERROR": 1, "NXDOMAIN": 1, "REFUSED": 1}[name]
		if n, sum, _ := state.Durations[i].Buckets(); n != want || sum < 0 || n > 0 && sum == 0 {
			t.Errorf("%d responses with %s were timed, in %v s", n, name, sum)
		}
	}
	if stats.Asked != 3 || stats.Unanswered != 0 {
		t.Errorf("got stats %+v", stats)
	}
	if n := changes.Load(); n != 1 {
		t.Errorf("the state changed %d times, want once, to up", n)
	}
	ask("silent.example.")
	state, stats = stateOf(f, addresses[0]), f.Stats()
	if state.Retries == 0 || state.Failures == 0 || stats.Asked != 4 || stats.Unanswered != 1 {
		t.Errorf("after a silence: server %+v, %+v", state, stats)
	}
}
