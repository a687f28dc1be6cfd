package result

import "fmt"

// target is what node-dns is to reach: a value of its own, or one that is at most so many times a rival's of the same round.
type target struct {
	workload string
	what     string // in words
	value    func(Run) float64
	rival    string  // a peer, bestPeer, ourMedian, or none: then the bound holds in every round
	atMost   float64 // below, where it is 1 and the words say so
}

const (
	bestPeer  = "the best peer"
	ourMedian = "our own median" // the bound holds for the median of the value itself
)

// Outcome is a target, and what became of it.
type Outcome struct {
	Workload, What string
	Got, AtMost    float64
	Spread         Spread // of a comparison with a rival
	Measured       bool   // else Got means nothing
	Met            bool
}

// targets are those of the design. "2.8 times better than" is at most 1/2.8 of.
var targets = []target{
	{"hits", "CPU at most 1.05 × the C echo's", Run.Cost, Limit, 1.05},
	{"hits", "CPU below unbound's", Run.Cost, "unbound", 1},
	{"hits", "CPU below dnsdist's", Run.Cost, "dnsdist", 1},
	{"hits", "CPU 2.8 × better than CoreDNS's", Run.Cost, "coredns", 1 / 2.8},
	{"hits", "CPU 4.5 × better than node-cache's", Run.Cost, "node-cache", 1 / 4.5},
	{"hits-500", "CPU at most 1.25 × the C echo's", Run.Cost, Limit, 1.25},
	{"hits-2k", "CPU at most 1.25 × the C echo's", Run.Cost, Limit, 1.25},
	{"hits-10k", "CPU at most 1.05 × the C echo's", Run.Cost, Limit, 1.05},
	{"hits-10k", "CPU below unbound's", Run.Cost, "unbound", 1},
	{"hits-10k", "CPU below dnsdist's", Run.Cost, "dnsdist", 1},
	{"hits-10k", "p99 no worse than the best peer's", p99, bestPeer, 1},
	{"hits-10k", "p99.9 at most 1.1 × the C echo's", p999, Limit, 1.1},
	{"hits-30k", "CPU at most 1.05 × the C echo's", Run.Cost, Limit, 1.05},
	{"hits-30k", "CPU below unbound's", Run.Cost, "unbound", 1},
	{"hits-30k", "CPU below dnsdist's", Run.Cost, "dnsdist", 1},
	{"misses", "CPU at most 1.5 × dnsdist's", Run.Cost, "dnsdist", 1.5},
	{"misses", "CPU 1.8 × better than unbound's", Run.Cost, "unbound", 1 / 1.8},
	{"misses", "CPU 2.2 × better than CoreDNS's", Run.Cost, "coredns", 1 / 2.2},
	{"misses", "nothing lost", missed, "", 0},
	{"misses-10k", "CPU at most unbound's", Run.Cost, "unbound", 1},
	{"misses-10k", "p99.9 at most dnsdist's", p999, "dnsdist", 1},
	{"misses-10k", "nothing lost", missed, "", 0},
	{"pods", "CPU at most 0.85 × unbound's", Run.Cost, "unbound", 0.85},
	{"pods", "CPU 4.5 × better than CoreDNS's", Run.Cost, "coredns", 1 / 4.5},
	{"tcp", "CPU at most half the best peer's", Run.Cost, bestPeer, 0.5},
	{"tcp-short", "CPU at most 0.9 × the best peer's", Run.Cost, bestPeer, 0.9},
	{"tcp-short-2k", "CPU at most 0.9 × the best peer's", Run.Cost, bestPeer, 0.9},
	{"tcp-short-2k", "p99 at most 2,000 µs", p99, ourMedian, 2000},
	{"addresses", "CPU at most 1.1 × that at one address", Run.Cost, OneAddress, 1.1},
	{"addresses-10k", "CPU at most 1.1 × that at one address", Run.Cost, OneAddress, 1.1},
	{"half-10k", "p99 at most 1.2 × unbound's", p99, "unbound", 1.2},
	{"half-30k", "p99 at most 1.2 × unbound's", p99, "unbound", 1.2},
	{"busy-10k", "p99 at most 1.2 × unbound's", p99, "unbound", 1.2},
	{"busy-30k", "p99 at most 1.2 × unbound's", p99, "unbound", 1.2},
	{"memory", "at most 25 MB after hits on 10,000 names", func(r Run) float64 { return r.HitsMB }, "", 25},
	{"memory", "at most 64 MB while 1,000,000 names pass", func(r Run) float64 { return r.MissesMB }, "", 64},
}

func p99(r Run) float64 { return r.P99 }

func p999(r Run) float64 { return r.P999 }

// missed is what was lost, or failed, in one run.
func missed(r Run) float64 { return float64(r.Lost + r.Failed) }

// Targets says of each target whether it was met. What was not measured, ours or the rival's, is not.
func Targets(r Report) []Outcome {
	var all []Outcome
	for _, t := range targets {
		o := Outcome{Workload: t.workload, What: t.what, AtMost: t.atMost}
		o.Got, o.Spread, o.Measured = r.got(t)
		o.Met = o.Measured && o.Got <= t.atMost
		all = append(all, o)
	}
	return all
}

func (r Report) got(t target) (value float64, spread Spread, ok bool) {
	rivals := r.only(t.rival)
	switch t.rival {
	case "":
		for _, run := range r.of(t.workload, Ours) {
			value, ok = max(value, t.value(run)), ok || run.Error == "" && run.Sent > 0
		}
		return value, Spread{}, ok
	case ourMedian:
		values := measured(r.of(t.workload, Ours), t.value)
		return median(values), spreadOf(values), len(values) > 0
	case bestPeer:
		rivals = r.others()
	}
	ratio := r.ratio(t.workload, Ours, t.value, rivals)
	return ratio.Median, ratio.Spread, ratio.Median > 0
}

// String is "yes" or by how much it was missed, as a cell of a table. It says so when the spread
// holds the bound: another run may come to the opposite.
func (o Outcome) String() string {
	said := "yes"
	switch {
	case !o.Measured:
		return "not measured"
	case o.Met:
	case o.AtMost == 0:
		said = fmt.Sprintf("no, %.0f", o.Got)
	default:
		said = fmt.Sprintf("no, %.0f %% above", (o.Got/o.AtMost-1)*100)
	}
	if o.Spread.Holds(o.AtMost) {
		said += ", within the spread"
	}
	return said
}
