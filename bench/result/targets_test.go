package result_test

import (
	"testing"

	"github.com/node-dns/node-dns/bench/result"
)

func slow(r result.Run) result.Run {
	r.P99 = 9000
	return r
}

func TestTargets(t *testing.T) {
	for _, test := range []struct {
		name, workload, what, want string
		runs                       []result.Run
	}{
		{
			"met at the bound", "hits", "CPU at most 1.05 × the C echo's", "yes",
			[]result.Run{run("hits", "echo", 1, 4), run("hits", "node-dns", 1, 4.2)},
		},
		{
			"missed", "hits", "CPU at most 1.05 × the C echo's", "no, 100 % above",
			[]result.Run{run("hits", "echo", 1, 4), run("hits", "node-dns", 1, 8.4)},
		},
		{
			"the rounds are compared each for itself", "hits", "CPU at most 1.05 × the C echo's", "yes",
			[]result.Run{
				run("hits", "echo", 1, 4), run("hits", "node-dns", 1, 4.1), run("hits", "echo", 2, 8), run("hits", "node-dns", 2, 8.2),
				run("hits", "echo", 3, 4), run("hits", "node-dns", 3, 9),
			},
		},
		{
			"so many times better", "hits", "CPU 2.8 × better than CoreDNS's", "yes",
			[]result.Run{run("hits", "coredns", 1, 14.1), run("hits", "node-dns", 1, 5)},
		},
		{
			"fewer times better", "hits", "CPU 2.8 × better than CoreDNS's", "no, 40 % above",
			[]result.Run{run("hits", "coredns", 1, 10), run("hits", "node-dns", 1, 5)},
		},
		{
			"without the rival", "hits", "CPU below unbound's", "not measured",
			[]result.Run{run("hits", "echo", 1, 4), run("hits", "node-dns", 1, 4.6)},
		},
		{
			"a latency, to the best that does not lose", "hits-10k", "p99 no worse than the best peer's", "yes",
			[]result.Run{losing(run("hits-10k", "dnsdist", 1, 1)), run("hits-10k", "unbound", 1, 9), run("hits-10k", "node-dns", 1, 9)},
		},
		{
			"met, but not for certain", "tcp", "CPU at most half the best peer's", "yes, within the spread",
			slicesOf("tcp", map[string][6]float64{"unbound": {8, 8, 8, 8, 8, 8}, "node-dns": {3.9, 4.2, 3.9, 3.9, 3.9, 3.9}}),
		},
		{
			"missed, but not for certain", "tcp", "CPU at most half the best peer's", "no, 2 % above, within the spread",
			slicesOf("tcp", map[string][6]float64{"unbound": {8, 8, 8, 8, 8, 8}, "node-dns": {4.1, 4.1, 4.1, 4.1, 3.9, 4.1}}),
		},
		{
			"missed for certain", "tcp", "CPU at most half the best peer's", "no, 5 % above",
			slicesOf("tcp", map[string][6]float64{"unbound": {8, 8, 8, 8, 8, 8}, "node-dns": {4.1, 4.2, 4.2, 4.2, 4.2, 4.3}}),
		},
		{
			"a latency of one slice in a thousand answers", "misses-10k", "p99.9 at most dnsdist's", "no, 10 % above",
			[]result.Run{run("misses-10k", "dnsdist", 1, 10), run("misses-10k", "node-dns", 1, 14)},
		},
		{
			"to itself at one address", "addresses", "CPU at most 1.1 × that at one address", "no, 5 % above",
			[]result.Run{run("addresses", "node-dns", 1, 4.62), run("addresses", "node-dns-one-address", 1, 4)},
		},
		{
			"one slow slice does not decide on a median", "tcp-short-2k", "p99 at most 2,000 µs", "yes",
			[]result.Run{slow(run("tcp-short-2k", "node-dns", 1, 40)), run("tcp-short-2k", "node-dns", 2, 40), run("tcp-short-2k", "node-dns", 3, 40)},
		},
		{
			"two of three do", "tcp-short-2k", "p99 at most 2,000 µs", "no, 350 % above",
			[]result.Run{slow(run("tcp-short-2k", "node-dns", 1, 40)), slow(run("tcp-short-2k", "node-dns", 2, 40)), run("tcp-short-2k", "node-dns", 3, 40)},
		},
		{
			"nothing lost", "misses", "nothing lost", "yes",
			[]result.Run{run("misses", "node-dns", 1, 9), run("misses", "node-dns", 2, 9)},
		},
		{
			"lost in one round", "misses", "nothing lost", "no, 50000",
			[]result.Run{run("misses", "node-dns", 1, 9), losing(run("misses", "node-dns", 2, 9))},
		},
		{
			"a failed run is not a measurement", "misses", "nothing lost", "not measured",
			[]result.Run{{Workload: "misses", Peer: "node-dns", Round: 1, Error: "it ended"}},
		},
		{
			"an absolute bound", "memory", "at most 64 MB while 1,000,000 names pass", "no, 25 % above",
			[]result.Run{{Workload: "memory", Peer: "node-dns", Round: 1, Sent: 1, MissesMB: 80}},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := report()
			r.Peers = append(r.Peers, result.Peer{Name: "coredns"})
			r.Runs = test.runs
			for _, o := range result.Targets(r) {
				if o.Workload == test.workload && o.What == test.what {
					if o.String() != test.want {
						t.Errorf("got %v, want %s", o, test.want)
					}
					return
				}
			}
			t.Error("target not found")
		})
	}
}
