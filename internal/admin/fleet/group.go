package fleet

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// Report is the summary of all nodes.
type Report struct {
	APIVersion string       `json:"apiVersion"`
	Kind       string       `json:"kind"` // Fleet
	Command    string       `json:"command"`
	Now        time.Time    `json:"now"`
	Nodes      int          `json:"nodes"`
	OK         int          `json:"ok"`
	ExitCode   int          `json:"exitCode"`
	Findings   []Group      `json:"findings"` // most severe and most frequent first
	Facts      []GroupFacts `json:"facts"`
	Results    []Result     `json:"results"`
}

// Group is a finding that several nodes have.
type Group struct {
	Level Level  `json:"level"`
	What  string `json:"what"` // numbers that differ are a range, as in 2-12
	Fix   string `json:"fix,omitempty"`
	// First and Last are the earliest and the latest beginning on these nodes. They are zero if
	// unknown.
	First time.Time `json:"firstSince,omitzero"`
	Last  time.Time `json:"lastSince,omitzero"`
	Nodes []string  `json:"nodes"` // sorted
}

// GroupFacts are the values of one kind of fact.
type GroupFacts struct {
	Name   string       `json:"name"`
	Values []GroupValue `json:"values"` // most frequent first
}

// GroupValue is a value that several nodes have.
type GroupValue struct {
	Value string   `json:"value"`
	Nodes []string `json:"nodes"` // sorted
}

// apiVersion is the version of the JSON output, the same as node-dns's.
const apiVersion = "node-dns/v1"

// NewReport summarizes the results of a command, which are sorted by node. It is pure.
func NewReport(command string, results []Result, now time.Time) Report {
	r := Report{
		APIVersion: apiVersion, Kind: "Fleet", Command: command, Now: now, Nodes: len(results), Results: results,
		Findings: groupFindings(results), Facts: groupFacts(results), ExitCode: exitCode(results),
	}
	for _, result := range results {
		if result.State == OK {
			r.OK++
		}
	}
	return r
}

// exitCode is 0 if all nodes are ok, their exit code if it is the same for all, and otherwise 1.
func exitCode(results []Result) int {
	if len(results) == 0 {
		return ExitOK
	}
	code := results[0].ExitCode
	if slices.ContainsFunc(results, func(r Result) bool { return r.ExitCode != code }) {
		return ExitProblem
	}
	return code
}

// grouped is a Group while it grows.
type grouped struct {
	Group
	text      masked
	low, high []string // values of the slots
}

func groupFindings(results []Result) []Group {
	type key struct {
		level Level
		text  string
	}
	groups := map[key]*grouped{}
	for _, result := range results {
		for _, f := range result.Findings {
			text := mask(f.What, result)
			k := key{f.Level, text.key()}
			g := groups[k]
			if g == nil {
				g = &grouped{Group: Group{Level: f.Level, Fix: f.Fix}, text: text, low: slices.Clone(text.slots), high: slices.Clone(text.slots)}
				groups[k] = g
			}
			g.add(result.Node, f, text)
		}
	}
	all := []Group{}
	for _, g := range groups {
		g.What = g.text.ranges(g.low, g.high)
		all = append(all, g.Group)
	}
	slices.SortFunc(all, func(a, b Group) int {
		return cmp.Or(cmp.Compare(a.Level, b.Level), cmp.Compare(len(b.Nodes), len(a.Nodes)), cmp.Compare(a.What, b.What))
	})
	return all
}

func (g *grouped) add(node string, f Finding, text masked) {
	for i, value := range text.slots {
		if compareValues(value, g.low[i]) < 0 {
			g.low[i] = value
		}
		if compareValues(value, g.high[i]) > 0 {
			g.high[i] = value
		}
	}
	if !f.Since.IsZero() {
		if g.First.IsZero() || f.Since.Before(g.First) {
			g.First = f.Since
		}
		if f.Since.After(g.Last) {
			g.Last = f.Since
		}
	}
	if n := len(g.Nodes); n == 0 || g.Nodes[n-1] != node { // a node may have it twice
		g.Nodes = append(g.Nodes, node)
	}
}

func groupFacts(results []Result) []GroupFacts {
	nodes := map[Fact][]string{}
	for _, result := range results {
		for _, f := range result.Facts {
			if have := nodes[f]; len(have) == 0 || have[len(have)-1] != result.Node { // a node may have it twice
				nodes[f] = append(have, result.Node)
			}
		}
	}
	facts := slices.SortedFunc(maps.Keys(nodes), func(a, b Fact) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(len(nodes[b]), len(nodes[a])), cmp.Compare(a.Value, b.Value))
	})
	all := []GroupFacts{}
	for _, f := range facts {
		if n := len(all); n == 0 || all[n-1].Name != f.Name {
			all = append(all, GroupFacts{Name: f.Name})
		}
		g := &all[len(all)-1]
		g.Values = append(g.Values, GroupValue{Value: f.Value, Nodes: nodes[f]})
	}
	return all
}
