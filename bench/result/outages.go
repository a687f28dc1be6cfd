package result

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// OutageReport is what a pod loses when something happens to the server that answers its node's
// pods at the address of the cluster's DNS Service.
type OutageReport struct {
	Schema    int       `json:"schema"`
	Taken     time.Time `json:"taken"`
	Revision  string    `json:"revision"`
	Machine   Machine   `json:"machine"`
	Load      string    `json:"load"`      // load averages of 1, 5 and 15 minutes before the first run
	PerSecond int       `json:"perSecond"` // queries, each from a socket of its own
	Peers     []Peer    `json:"peers"`     // in the order of the rows
	Events    []Event   `json:"events"`    // likewise
	Runs      []Outage  `json:"runs"`
}

// Event is something that happens to a server.
type Event struct {
	Name  string `json:"name"`
	Means string `json:"means"` // what the measurement does
}

// Outage is what one event cost once.
type Outage struct {
	Event  string  `json:"event"`
	Proxy  string  `json:"proxy"` // mode of kube-proxy
	Peer   string  `json:"peer"`
	Round  int     `json:"round"` // from 1
	Sent   int     `json:"sent"`
	Lost   int     `json:"lost"`   // without an answer within the timeout of resolv.conf(5)
	GapMS  float64 `json:"gapMS"`  // longest time between two answers
	LateMS float64 `json:"lateMS"` // maximum delay of a query against the client's schedule
}

// of returns the runs of an event for a peer, in all modes of kube-proxy if proxy is "".
func (r OutageReport) of(event, peer, proxy string) []Outage {
	return slices.DeleteFunc(slices.Clone(r.Runs), func(o Outage) bool {
		return o.Event != event || o.Peer != peer || proxy != "" && o.Proxy != proxy
	})
}

// Median returns the medians of the lost queries and of the gaps of all runs of an event for a
// peer. It returns false if the results have no run of it.
func (r OutageReport) Median(event, peer string) (lost, gapMS float64, ok bool) {
	var losses, gaps []float64
	for _, o := range r.of(event, peer, "") {
		losses, gaps = append(losses, float64(o.Lost)), append(gaps, o.GapMS)
	}
	return median(losses), median(gaps), len(losses) > 0
}

// Outages returns the report as aligned text: the machine, what the events mean, and one row for
// each event, server and mode of kube-proxy with the values of all rounds.
func Outages(r OutageReport) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %s\n", r.Taken.UTC().Format("2006-01-02 15:04 MST"), r.Revision)
	fmt.Fprintf(&b, "%s, %d cores, Linux %s, load averages before: %s\n", r.Machine.CPU, r.Machine.Cores, r.Machine.Kernel, r.Load)
	for _, p := range r.Peers {
		fmt.Fprintf(&b, "%s: %s\n", p.Name, p.Version)
	}
	fmt.Fprintf(&b, "a pod sends %d queries a second, each from a new socket, once, and waits five seconds\n\n", r.PerSecond)
	for _, e := range r.Events {
		fmt.Fprintf(&b, "%s: %s\n", e.Name, e.Means)
	}
	var proxies []string
	for _, o := range r.Runs {
		if !slices.Contains(proxies, o.Proxy) {
			proxies = append(proxies, o.Proxy)
		}
	}
	b.WriteString("\nqueries lost, longest time without an answer, and maximum delay of the client against its schedule, in each round\n\n")
	t := newTable(&b)
	line(t, "event", "server", "kube-proxy", "lost", "gap ms", "client late ms")
	for _, e := range r.Events {
		for _, p := range r.Peers {
			for _, proxy := range proxies {
				runs := r.of(e.Name, p.Name, proxy)
				if len(runs) == 0 {
					continue
				}
				var lost, gap, late []string
				for _, o := range runs {
					lost = append(lost, fmt.Sprint(o.Lost))
					gap = append(gap, fmt.Sprintf("%.0f", o.GapMS))
					late = append(late, fmt.Sprintf("%.0f", o.LateMS))
				}
				line(t, e.Name, p.Name, proxy, strings.Join(lost, " "), strings.Join(gap, " "), strings.Join(late, " "))
			}
		}
	}
	t.Flush()
	return b.String()
}
