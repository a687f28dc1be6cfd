// Package result holds the results of a benchmark run: their schema, medians, and presentation
// (table, chart, and which targets are met). It does not measure. Everything in it is a function of
// the Report.
package result

import (
	"fmt"
	"time"
)

// Schema is the version of Report's JSON. Adding a field does not change it; changing the meaning
// of a field does.
const Schema = 1

// Special peer names.
const (
	Ours  = "node-dns" // measured against the peers; also the prefix, with a dash, of its variants
	Limit = "echo"     // the kernel's cost for a query and its answer

	OneAddress = Ours + "-one-address" // node-dns with one address when the others have several
)

// Report holds everything that one run measured.
type Report struct {
	Schema    int        `json:"schema"`
	Taken     time.Time  `json:"taken"`
	Revision  string     `json:"revision"` // of the tree that node-dns was built from
	Machine   Machine    `json:"machine"`
	Settings  Settings   `json:"settings"`
	Workloads []Workload `json:"workloads"` // in the order of the table
	Peers     []Peer     `json:"peers"`     // likewise
	Missing   []Missing  `json:"missing,omitempty"`
	Runs      []Run      `json:"runs"`
}

// Machine describes the machine of the run.
type Machine struct {
	CPU    string `json:"cpu"`
	Cores  int    `json:"cores"`  // total number
	Used   []int  `json:"used"`   // CPUs shared by servers, client and upstream nameserver
	Memory int64  `json:"memory"` // bytes
	Kernel string `json:"kernel"`
	System string `json:"system"`
}

// Settings are the parameters of the run.
type Settings struct {
	Rounds  int     `json:"rounds"`         // slices per server
	Seconds float64 `json:"seconds"`        // length of a slice
	Tries   int     `json:"tries"`          // maximum, for a slice disturbed by other programs
	Foreign float64 `json:"foreign"`        // cores that other programs may use
	Seed    uint64  `json:"seed,omitempty"` // for the order of slices; 0: the servers ran one after the other
}

// String describes how the measurements were distributed over time.
func (s Settings) String() string {
	if s.Seed == 0 {
		return fmt.Sprintf("rounds: %d, of %g s", s.Rounds, s.Seconds)
	}
	return fmt.Sprintf("slices: %d of %g s for each server, all alive, in random order (seed %d)", s.Rounds, s.Seconds, s.Seed)
}

// Workload is a kind of client load.
type Workload struct {
	Name      string `json:"name"`
	Title     string `json:"title"`
	TableOnly bool   `json:"tableOnly,omitempty"` // not in the chart, which shows only costs and must not become too long
}

// Peer is a server that was measured.
type Peer struct {
	Name    string `json:"name"`
	Version string `json:"version"` // as it reports
}

// Missing is a peer that could not be measured.
type Missing struct {
	Name string `json:"name"`
	Why  string `json:"why"`
}

// Run is one measurement: a slice of a server under one workload.
type Run struct {
	Workload string  `json:"workload"`
	Peer     string  `json:"peer"`
	Round    int     `json:"round"`           // from 1; comparisons are within a round
	Tries    int     `json:"tries"`           // number of tries needed
	Foreign  float64 `json:"foreign"`         // cores that other programs used in that time
	Error    string  `json:"error,omitempty"` // why there is no measurement

	Sent     int64   `json:"sent"`
	Answered int64   `json:"answered"` // NOERROR or NXDOMAIN
	Failed   int64   `json:"failed"`   // SERVFAIL, REFUSED and similar
	Lost     int64   `json:"lost"`     // never answered
	Seconds  float64 `json:"seconds"`
	CPU      float64 `json:"cpu"`           // seconds, user and system, of all processes of the server
	P50      float64 `json:"p50,omitempty"` // latency in microseconds; 0: not measured
	P99      float64 `json:"p99,omitempty"`
	P999     float64 `json:"p999,omitempty"` // also 0 with fewer than a thousand answers
	Max      float64 `json:"max,omitempty"`

	HitsMB   float64 `json:"hitsMB,omitempty"`   // resident after hits; 0: not measured
	MissesMB float64 `json:"missesMB,omitempty"` // peak resident while unique names were queried
	Names    int64   `json:"names,omitempty"`    // number of unique names
}

// Cost returns the server's CPU-seconds per million answers, which is microseconds per answer. It
// returns 0 if there were no answers.
func (r Run) Cost() float64 {
	if r.Answered == 0 {
		return 0
	}
	return r.CPU / float64(r.Answered) * 1e6
}

// spoiled reports whether more than one query in a hundred was unanswered, so that the cost of the
// others is not comparable.
func (r Run) spoiled() bool { return r.Error != "" || (r.Lost+r.Failed)*100 > r.Sent }
