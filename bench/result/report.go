// Package result is what a run of the benchmark found out: its schema, its medians, and how they are shown (a table, a
// chart, and which targets are met). It measures nothing, and everything in it is a function of the Report.
package result

import (
	"fmt"
	"time"
)

// Schema is the version of Report's JSON. A field that is added leaves it, one that changes its meaning raises it.
const Schema = 1

// The names that mean more than a row of their own.
const (
	Ours  = "node-dns" // what is measured against the peers; so is every name that it begins, with a dash behind it
	Limit = "echo"     // what the kernel takes for a query and its answer

	OneAddress = Ours + "-one-address" // node-dns with one address, where the others have several
)

// Report is all that one run measured.
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

// Machine is where it was measured.
type Machine struct {
	CPU    string `json:"cpu"`
	Cores  int    `json:"cores"`  // that it has
	Used   []int  `json:"used"`   // that servers, client and upstream nameserver shared
	Memory int64  `json:"memory"` // octets
	Kernel string `json:"kernel"`
	System string `json:"system"`
}

// Settings are how it was measured.
type Settings struct {
	Rounds  int     `json:"rounds"`         // slices of each server
	Seconds float64 `json:"seconds"`        // length of a slice
	Tries   int     `json:"tries"`          // of a slice that other programs disturbed
	Foreign float64 `json:"foreign"`        // cores that these may take
	Seed    uint64  `json:"seed,omitempty"` // of the slices' order; 0: the servers ran one after the other
}

// String describes how the measurements were spread over time.
func (s Settings) String() string {
	if s.Seed == 0 {
		return fmt.Sprintf("rounds: %d, of %g s", s.Rounds, s.Seconds)
	}
	return fmt.Sprintf("slices: %d of %g s for each server, all alive, in random order (seed %d)", s.Rounds, s.Seconds, s.Seed)
}

// Workload is what the clients ask.
type Workload struct {
	Name      string `json:"name"`
	Title     string `json:"title"`
	TableOnly bool   `json:"tableOnly,omitempty"` // not in the chart, which would become too long
}

// Peer is a server that was measured.
type Peer struct {
	Name    string `json:"name"`
	Version string `json:"version"` // as it says itself
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
	Round    int     `json:"round"`           // from 1; what is compared is of the same round
	Tries    int     `json:"tries"`           // that it took
	Foreign  float64 `json:"foreign"`         // cores that other programs took meanwhile
	Error    string  `json:"error,omitempty"` // why there is nothing else

	Sent     int64   `json:"sent"`
	Answered int64   `json:"answered"` // NOERROR or NXDOMAIN
	Failed   int64   `json:"failed"`   // SERVFAIL, REFUSED and the like
	Lost     int64   `json:"lost"`     // never answered
	Seconds  float64 `json:"seconds"`
	CPU      float64 `json:"cpu"`           // seconds, user and system, of all processes of the server
	P50      float64 `json:"p50,omitempty"` // latency in microseconds; 0: not measured
	P99      float64 `json:"p99,omitempty"`
	P999     float64 `json:"p999,omitempty"` // 0: also with less than a thousand answers
	Max      float64 `json:"max,omitempty"`

	HitsMB   float64 `json:"hitsMB,omitempty"`   // resident after hits; 0: not measured
	MissesMB float64 `json:"missesMB,omitempty"` // most that was resident while unique names passed
	Names    int64   `json:"names,omitempty"`    // how many passed
}

// Cost is the server's CPU-seconds for a million answers, or microseconds for one; 0: there were none.
func (r Run) Cost() float64 {
	if r.Answered == 0 {
		return 0
	}
	return r.CPU / float64(r.Answered) * 1e6
}

// spoiled reports whether so much went unanswered, more than one query in a hundred, that the cost of the rest is no yardstick.
func (r Run) spoiled() bool { return r.Error != "" || (r.Lost+r.Failed)*100 > r.Sent }
