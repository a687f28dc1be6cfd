package result

import (
	"fmt"
	"strings"
	"time"

	"github.com/node-dns/node-dns/internal/test/faultplan"
)

// FaultReport is the result of the fault matrix.
type FaultReport struct {
	Schema   int        `json:"schema"`
	Taken    time.Time  `json:"taken"`
	Revision string     `json:"revision"`
	Machine  Machine    `json:"machine"`
	Seconds  float64    `json:"seconds"` // duration of a lasting fault
	Peers    []Peer     `json:"peers"`   // in the order of the columns
	Missing  []Missing  `json:"missing,omitempty"`
	Rows     []FaultRow `json:"rows"`
}

// FaultRow is one fault with the result of each server.
type FaultRow struct {
	Name    string     `json:"name"`
	Promise string     `json:"promise"` // of node-dns
	Runs    []FaultRun `json:"runs"`
}

// FaultRun is the result of one server under one fault.
type FaultRun struct {
	Peer  string `json:"peer"`
	Error string `json:"error,omitempty"` // why there is no result
	faultplan.Outcome
}

// String returns the result in one line.
func (r FaultRun) String() string {
	if r.Error != "" {
		return r.Error
	}
	return r.Outcome.String()
}

// Markdown returns the report as a table with one column per server.
func Markdown(r FaultReport) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %s; %s, %d cores; faults of %g s\n\n", r.Taken.UTC().Format("2006-01-02 15:04 MST"), r.Revision, r.Machine.CPU, len(r.Machine.Used), r.Seconds)
	for _, m := range r.Missing {
		fmt.Fprintf(&b, "Not measured: %s: %s\n\n", m.Name, m.Why)
	}
	header, rule := "| fault | promise |", "|---|---|"
	for _, p := range r.Peers {
		name := p.Name
		if p.Name != Ours {
			name += " " + p.Version
		}
		header += " " + name + " |"
		rule += "---|"
	}
	fmt.Fprintf(&b, "%s\n%s\n", header, rule)
	for _, row := range r.Rows {
		fmt.Fprintf(&b, "| %s | %s |", row.Name, row.Promise)
		for _, p := range r.Peers {
			fmt.Fprintf(&b, " %s |", row.cell(p.Name))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func (r FaultRow) cell(peer string) string {
	for _, run := range r.Runs {
		if run.Peer == peer {
			return run.cell()
		}
	}
	return absent
}

// cell returns the table cell: the share of correct answers, the outcome of the others, times,
// upstream queries per question, and the metrics of the row.
func (r FaultRun) cell() string {
	if r.Error != "" {
		return r.Error
	}
	words := []string{percent(r.OK()) + " %"}
	for _, kind := range []struct {
		n    int
		what string
	}{{r.Wrong, "**wrong**"}, {r.Silent, "silent"}, {r.Failed, "failed"}, {r.Late, "late"}} {
		if kind.n > 0 {
			words = append(words, fmt.Sprintf("%d %s", kind.n, kind.what))
		}
	}
	if r.Worst > 0 {
		words = append(words, fmt.Sprintf("%s / %s / %s ms", number(r.P50), number(r.P99), number(r.Worst)))
	}
	words = append(words, fmt.Sprintf("%.1f×", float64(r.Upstream)/float64(max(r.Asked, 1))))
	for _, f := range r.Facts {
		if f.Value != 0 {
			words = append(words, f.String())
		}
	}
	return strings.Join(words, ", ")
}

// percent formats a share but never rounds up to 100.
func percent(share float64) string {
	if share < 100 && share > 99.9 {
		return "99.9"
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", share), ".0")
}
