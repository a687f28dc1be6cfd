package control

import (
	"fmt"
	"strings"
	"time"
)

// SlowName is a name whose answers took long, with the latest such query. If many names are slow,
// the list is a sample.
type SlowName struct {
	Name   string        `json:"name"`
	Type   string        `json:"type"`
	Count  uint64        `json:"count"` // slow queries
	Worst  time.Duration `json:"worstNanoseconds"`
	Took   time.Duration `json:"tookNanoseconds"`
	At     time.Time     `json:"at"`
	Rcode  string        `json:"rcode,omitempty"` // empty if no response was sent
	By     string        `json:"by"`              // as in MonitorEvent, or the upstream nameserver
	Why    string        `json:"why,omitempty"`   // reason why there is no answer
	Client string        `json:"client"`
	Pod    string        `json:"pod,omitempty"` // NAMESPACE/NAME; empty if unknown
}

// manySlow is the maximum number of slow names in the text.
const manySlow = 3

// slowText returns one line for each of the slowest names. It is empty if there are none.
func (s Status) slowText() string {
	var lines []string
	for _, n := range s.SlowNames[:min(len(s.SlowNames), manySlow)] {
		by := "from " + n.By
		if n.By == "failed" {
			by = "no answer"
		}
		line := fmt.Sprintf("%s %s took %s (%s), slow %s, last %s ago for %s", n.Name, n.Type, milliseconds(n.Worst), by,
			number(n.Count, "time", "times"), age(s.Now.Sub(n.At)), client(n.Client, n.Pod))
		if n.Why != "" {
			line += ": " + n.Why
		}
		lines = append(lines, line)
	}
	if more := len(s.SlowNames) - manySlow; more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more: -o json, or node-dns top", more))
	}
	return strings.Join(lines, "\n")
}
