package result

import "fmt"

// target is a goal for node-dns: a maximum for its own value, or for its ratio to a rival in the
// same round.
type target struct {
	workload string
	what     string // description
	value    func(Run) float64
	rival    string  // a peer, bestPeer, ourMedian, or "" if the limit applies to every round
	atMost   float64 // exclusive if it is 1 and the description says "below"
}

const (
	bestPeer  = "the best peer"
	ourMedian = "our own median" // the limit applies to the median of the value itself
)

// Outcome is a target and its result.
type Outcome struct {
	Workload, What string
	Got, AtMost    float64
	Spread         Spread // of a comparison with a rival
	Measured       bool   // otherwise Got is meaningless
	Met            bool
}

// targets are the goals of the design. "2.8 times better than" is at most 1/2.8 of.
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
	{"misses", "CPU at most 1.2 × dnsdist's", Run.Cost, "dnsdist", 1.2},
	{"misses", "CPU 1.8 × better than unbound's", Run.Cost, "unbound", 1 / 1.8},
	{"misses", "CPU 2.2 × better than CoreDNS's", Run.Cost, "coredns", 1 / 2.2},
	{"misses", "nothing lost", missed, "", 0},
	{"misses-10k", "CPU at most 0.7 × unbound's", Run.Cost, "unbound", 0.7},
	{"misses-10k", "CPU at most 1.2 × dnsdist's", Run.Cost, "dnsdist", 1.2},
	{"misses-10k", "p99.9 at most dnsdist's", p999, "dnsdist", 1},
	{"misses-10k", "nothing lost", missed, "", 0},
	{"misses-tls", "CPU below unbound's", Run.Cost, "unbound", 1},
	{"misses-tls", "CPU below dnsdist's", Run.Cost, "dnsdist", 1},
	{"misses-tls", "nothing lost", missed, "", 0},
	{"pods", "CPU at most 0.85 × unbound's", Run.Cost, "unbound", 0.85},
	{"pods", "CPU 4.5 × better than CoreDNS's", Run.Cost, "coredns", 1 / 4.5},
	{"tcp", "CPU at most half the best peer's", Run.Cost, bestPeer, 0.5},
	{"tcp-short", "CPU at most 0.9 × the best peer's", Run.Cost, bestPeer, 0.9},
	{"tcp-short-2k", "CPU at most 0.9 × the best peer's", Run.Cost, bestPeer, 0.9},
	{"tcp-short-2k", "p99 at most 2,000 µs", p99, ourMedian, 2000},
	{"addresses", "CPU at most 1.1 × that at one address", Run.Cost, OneAddress, 1.1},
	{"addresses-10k", "CPU at most 1.1 × that at one address", Run.Cost, OneAddress, 1.1},
	{"addresses-20", "CPU at most 1.1 × that at one address", Run.Cost, OneAddress, 1.1},
	{"addresses-64", "CPU at most 1.1 × that at one address", Run.Cost, OneAddress, 1.1},
	{"half-10k", "p99 at most 1.2 × unbound's", p99, "unbound", 1.2},
	{"half-30k", "p99 at most 1.2 × unbound's", p99, "unbound", 1.2},
	{"busy-10k", "p99 at most 1.2 × unbound's", p99, "unbound", 1.2},
	{"busy-30k", "p99 at most 1.2 × unbound's", p99, "unbound", 1.2},
	{"memory", "at most 25 MB after hits on 10,000 names", func(r Run) float64 { return r.HitsMB }, "", 25},
	{"memory", "at most 64 MB while 1,000,000 names pass", func(r Run) float64 { return r.MissesMB }, "", 64},
}

func p99(r Run) float64 { return r.P99 }

func p999(r Run) float64 { return r.P999 }

// missed returns the number of lost or failed queries in a run.
func missed(r Run) float64 { return float64(r.Lost + r.Failed) }

// Targets returns the outcome of each target. A target is unmeasured if our value or the rival's is
// missing.
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

// String returns "yes", or by how much the target was missed, as a table cell. It also says if the
// spread includes the limit, because another run may then have the opposite result.
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
