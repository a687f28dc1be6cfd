package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/node-dns/node-dns/bench/result"
)

// workload describes the queries to a server and how they are sent.
type workload struct {
	result.Workload
	before    queries // sent once before the measurement; nil: none
	ask       queries // sent repeatedly; nil: names that no client used before, different in each slice
	forgets   bool    // some servers cache the names only for seconds: repeat before for each slice
	once      bool    // each query of ask once, one server after the other, without slices
	rate      int     // queries per second, and measure latencies; 0: as fast as they are answered
	tcp       bool
	short     bool    // one TCP connection per query
	bad       bool    // one client in ten never reads, or closes its socket before its answer arrives
	cluster   bool    // node-dns answers the cluster's names itself
	tls       bool    // the upstream nameserver is queried over DNS over TLS
	addresses int     // of the server, each used by its share of the clients; 0: one
	cache     int     // responses that a server may cache; 0: cacheSize
	cores     float64 // CPU quota of the server's control group; 0: unlimited
	neighbors int     // busy processes in the server's control group
	resident  bool    // also measures resident memory after the slice
	memory    bool    // measures memory: after before, and while ask runs
}

// million is a number of names that exceeds every cache here.
const million = 1_000_000

// freshRate is the number of new names per second for a client. It exceeds the rate of any server.
const freshRate = 300_000

var workloads = []workload{
	{
		Workload: result.Workload{Name: "hits", Title: "1,000 cached names, as fast as they are answered"},
		before:   hot(1000), ask: hot(1000),
	},
	{
		Workload: result.Workload{Name: "misses", Title: "new names, as fast as they are answered"},
		before:   unique("before", 1000),
	},
	{
		Workload: result.Workload{Name: "misses-10k", Title: "new names, 10,000 a second"},
		before:   unique("before", 1000), rate: 10_000,
	},
	{
		Workload: result.Workload{Name: "misses-tls", Title: "new names, as fast as they are answered, from an upstream over DNS over TLS"},
		before:   unique("before", 1000), tls: true,
	},
	{
		Workload: result.Workload{Name: "pods", Title: "google.com through four search domains, A and AAAA, and 10,000 services: eight in ten are NXDOMAIN"},
		before:   podsOnce, ask: pods, cluster: true, forgets: true,
	},
	{
		Workload: result.Workload{Name: "tcp", Title: "1,000 cached names over 20 TCP connections"},
		before:   hot(1000), ask: hot(1000), tcp: true,
	},
	{
		Workload: result.Workload{Name: "tcp-short", Title: "1,000 cached names, one TCP connection per query"},
		before:   hot(1000), ask: hot(1000), short: true,
	},
	{
		Workload: result.Workload{Name: "tcp-short-2k", Title: "as tcp-short, 2,000 a second", TableOnly: true},
		before:   hot(1000), ask: hot(1000), short: true, rate: 2000,
	},
	{
		Workload: result.Workload{Name: "hits-500", Title: "1,000 cached names, 500 a second", TableOnly: true},
		before:   hot(1000), ask: hot(1000), rate: 500,
	},
	{
		Workload: result.Workload{Name: "hits-2k", Title: "1,000 cached names, 2,000 a second"},
		before:   hot(1000), ask: hot(1000), rate: 2000,
	},
	{
		Workload: result.Workload{Name: "hits-10k", Title: "1,000 cached names, 10,000 a second"},
		before:   hot(1000), ask: hot(1000), rate: 10_000,
	},
	{
		Workload: result.Workload{Name: "hits-30k", Title: "1,000 cached names, 30,000 a second"},
		before:   hot(1000), ask: hot(1000), rate: 30_000,
	},
	{
		Workload: result.Workload{Name: "addresses", Title: "1,000 cached names at four addresses, as fast as they are answered"},
		before:   hot(1000), ask: hot(1000), addresses: 4,
	},
	{
		Workload: result.Workload{Name: "addresses-10k", Title: "as addresses, 10,000 a second", TableOnly: true},
		before:   hot(1000), ask: hot(1000), addresses: 4, rate: 10_000,
	},
	{
		Workload: result.Workload{Name: "addresses-20", Title: "as addresses, at 20 addresses", TableOnly: true},
		before:   hot(1000), ask: hot(1000), addresses: 20,
	},
	{
		Workload: result.Workload{Name: "addresses-64", Title: "as addresses, at 64 addresses", TableOnly: true},
		before:   hot(1000), ask: hot(1000), addresses: 64,
	},
	{
		Workload: result.Workload{Name: "names-100k", Title: "100,000 cached names, as fast as they are answered; resident memory afterwards", TableOnly: true},
		before:   hot(100_000), ask: hot(100_000), cache: 200_000, resident: true,
	},
	{
		Workload: result.Workload{Name: "half-10k", Title: "as hits-10k, with half a core for the server", TableOnly: true},
		before:   hot(1000), ask: hot(1000), rate: 10_000, cores: 0.5,
	},
	{
		Workload: result.Workload{Name: "half-30k", Title: "as hits-30k, with half a core for the server", TableOnly: true},
		before:   hot(1000), ask: hot(1000), rate: 30_000, cores: 0.5,
	},
	{
		Workload: result.Workload{Name: "busy-10k", Title: "as hits-10k, with four busy processes in the server's control group", TableOnly: true},
		before:   hot(1000), ask: hot(1000), rate: 10_000, neighbors: 4,
	},
	{
		Workload: result.Workload{Name: "busy-30k", Title: "as hits-30k, with four busy processes in the server's control group", TableOnly: true},
		before:   hot(1000), ask: hot(1000), rate: 30_000, neighbors: 4,
	},
	{
		Workload: result.Workload{Name: "bad", Title: "as hits-10k, but one client in ten disappears before its answer, or never reads its TCP connection"},
		before:   hot(1000), ask: hot(1000), rate: 10_000, bad: true,
	},
	{
		Workload: result.Workload{Name: "bad-tcp", Title: "as bad, and the other clients use TCP"},
		before:   hot(1000), ask: hot(1000), rate: 10_000, tcp: true, bad: true,
	},
	{
		Workload: result.Workload{Name: "memory", Title: "resident memory after 10,000 names, and the peak while 1,000,000 more are queried (for at most a minute)", TableOnly: true},
		before:   hot(10_000), ask: unique("m", million), memory: true, once: true,
	},
}

// cacheSize is the number of responses that a server may cache: all that are queried again, and few
// others.
const cacheSize = 20_000

// asked returns the number of addresses that the clients use.
func (w workload) asked() int { return max(w.addresses, 1) }

// inCgroup reports whether each server has its own control group.
func (w workload) inCgroup() bool { return w.cores > 0 || w.neighbors > 0 }

// possible returns the reason why this machine cannot run the workload, or nil.
func (w workload) possible() error {
	if !w.inCgroup() {
		return nil
	}
	group, err := newCgroup(w.cores)
	group.remove()
	return err
}

// queries returns the queries of a slice and the name of their file. New names differ from those of
// every other series.
func (w workload) queries(series string, seconds float64) (file string, q queries) {
	if w.ask != nil {
		return w.Name, w.ask
	}
	rate := freshRate
	if w.rate > 0 {
		rate = 2 * w.rate
	}
	return w.Name + "." + series, unique(series, int(float64(rate)*seconds))
}

// chooseWorkloads returns the named workloads, separated by commas; "all" means every one.
func chooseWorkloads(names string) ([]workload, error) {
	return choose(workloads, func(w workload) string { return w.Name }, names)
}

// choose returns the named rows, separated by commas, in the table's order; "all" means every one.
func choose[T any](rows []T, name func(T) string, names string) ([]T, error) {
	if names == "all" {
		return rows, nil
	}
	wanted := strings.Split(names, ",")
	var chosen []T
	var known []string
	for _, row := range rows {
		known = append(known, name(row))
		if slices.Contains(wanted, name(row)) {
			chosen = append(chosen, row)
		}
	}
	for _, n := range wanted {
		if !slices.Contains(known, n) {
			return nil, fmt.Errorf("unknown name %q; expected one of %s", n, strings.Join(known, ", "))
		}
	}
	return chosen, nil
}
