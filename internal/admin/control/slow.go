package control

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/node-dns/node-dns/internal/sys/termtext"
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
			number(n.Count, "time", "times"), age(s.Now.Sub(n.At)), ClientText(n.Client, n.Pod))
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

const slowPath = "/v1/slow"

// SlowNames lists all recently slow names and the servers in use.
type SlowNames struct {
	APIVersion string     `json:"apiVersion"`
	Kind       string     `json:"kind"`
	Now        time.Time  `json:"now"`
	Name       string     `json:"name,omitempty"` // queried name; empty for all names
	Names      []SlowName `json:"names"`          // slowest first
	Routes     []Route    `json:"routes"`
}

// FetchSlowNames asks the daemon that listens on path when name was slow, including the names that
// search lists make of it.
func FetchSlowNames(ctx context.Context, path, name string) (SlowNames, error) {
	all, err := ask[SlowNames](ctx, path, slowPath, nil)
	if err != nil {
		return all, err
	}
	return all.of(name), nil
}

func (s SlowNames) of(name string) SlowNames {
	whole := strings.ToLower(wholeName(name))
	s.Name = name
	s.Names = slices.DeleteFunc(slices.Clone(s.Names), func(n SlowName) bool {
		other := strings.ToLower(n.Name)
		return other != whole && (strings.HasSuffix(name, ".") || !strings.HasPrefix(other, whole))
	})
	return s
}

// WriteText prints when each name was slow and where the time went.
func (s SlowNames) WriteText(w io.Writer) error {
	s = termtext.All(s)
	p := newPage(w)
	if len(s.Names) == 0 {
		p.line("%s was not slow in the last ten minutes", s.Name)
	}
	for _, n := range s.Names {
		p.folded(fmt.Sprintf("%s %s was slow %s in the last ten minutes; the worst took %s", n.Name, n.Type, number(n.Count, "time", "times"), milliseconds(n.Worst)), 2)
		p.folded(fmt.Sprintf("  last %s ago for %s: %s, %s", age(s.Now.Sub(n.At)), ClientText(n.Client, n.Pod), milliseconds(n.Took), orDash(n.Rcode)), 4)
		for _, line := range s.where(n) {
			p.folded("  "+line, 4)
		}
	}
	return p.err
}

// where explains where the time of a name's last slow query went, as far as the current response
// times of its servers show it.
func (s SlowNames) where(n SlowName) (lines []string) {
	if n.Why != "" {
		lines = append(lines, n.Why)
	}
	route, ok := s.routeOf(n.Name)
	at := slices.IndexFunc(route.Servers, func(server Server) bool { return server.Address == n.By })
	switch {
	case n.By == "failed":
		lines = append(lines, "no server answered; the time was spent waiting for them")
	case at >= 0:
		rtt := route.Servers[at].RTT
		lines = append(lines, fmt.Sprintf("%s answered; it usually takes %s", n.By, milliseconds(rtt)))
		if rtt > 0 && n.Took > 2*rtt {
			lines = append(lines, milliseconds(n.Took-rtt)+" more were spent on servers that were tried before it, or on lost packets")
		}
	case n.By == "stale":
		lines = append(lines, "answered from an expired cache entry: no server answered in time")
	default:
		return append(lines, "answered from "+n.By)
	}
	if ok && len(route.Servers) > 0 {
		lines = append(lines, route.Domain+" is forwarded to "+route.servers(s.Now))
	}
	return lines
}

// routeOf returns the route with the longest domain that contains name.
func (s SlowNames) routeOf(name string) (best Route, ok bool) {
	for _, route := range s.Routes {
		isIn := route.Domain == "." || name == route.Domain || strings.HasSuffix(name, "."+route.Domain)
		if isIn && (!ok || len(route.Domain) > len(best.Domain)) {
			best, ok = route, true
		}
	}
	return best, ok
}
