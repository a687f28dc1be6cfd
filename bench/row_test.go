package main

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/node-dns/node-dns/bench/result"
)

// TestTurns: each server has one slice in a round, in an order that the seed reproduces, and no
// server has a fixed place or predecessor.
func TestTurns(t *testing.T) {
	const n, rounds = 5, 200
	place, follows := map[[2]int]int{}, map[[2]int]int{}
	for round := 1; round <= rounds; round++ {
		order := turns(1, "hits", round, n)
		if again := turns(1, "hits", round, n); !slices.Equal(order, again) {
			t.Fatalf("round %d: %v, then %v", round, order, again)
		}
		if all := slices.Sorted(slices.Values(order)); !slices.Equal(all, []int{0, 1, 2, 3, 4}) {
			t.Fatalf("round %d: %v", round, order)
		}
		for at, server := range order {
			place[[2]int{server, at}]++
			if at > 0 {
				follows[[2]int{order[at-1], server}]++
			}
		}
	}
	if len(place) != n*n || len(follows) != n*(n-1) {
		t.Errorf("%d of %d places, %d of %d pairs", len(place), n*n, len(follows), n*(n-1))
	}
	for _, other := range []string{fmt.Sprint(turns(2, "hits", 1, 20)), fmt.Sprint(turns(1, "misses", 1, 20)), fmt.Sprint(turns(1, "hits", 2, 20))} {
		if other == fmt.Sprint(turns(1, "hits", 1, 20)) {
			t.Errorf("a different seed, workload or round has the same order: %s", other)
		}
	}
}

// TestSliceQueries: names that must be new are new in each slice, each try and each lead-in. The
// others are in one file.
func TestSliceQueries(t *testing.T) {
	for _, test := range []struct {
		workload string
		fresh    bool
		lines    int // in half a second
	}{
		{"misses", true, 150_000},
		{"misses-10k", true, 10_000},
		{"hits", false, 1000},
	} {
		t.Run(test.workload, func(t *testing.T) {
			chosen, err := chooseWorkloads(test.workload)
			if err != nil {
				t.Fatal(err)
			}
			seen := map[string]bool{}
			for i, series := range []string{"warm", "lead-in-1-1", "m1-1", "m1-2", "m11-2", "m2-1"} {
				file, q := chosen[0].queries(series, 0.5)
				var b strings.Builder
				if err := q.writeTo(&b); err != nil {
					t.Fatal(err)
				}
				first, _, _ := strings.Cut(b.String(), "\n")
				if fresh := !seen[file] && !seen[first]; i > 0 && fresh != test.fresh {
					t.Errorf("%s: new is %v: %s, %s", series, fresh, file, first)
				}
				seen[file], seen[first] = true, true
				if lines := strings.Count(b.String(), "\n"); lines != test.lines {
					t.Errorf("%s: %d names", series, lines)
				}
			}
		})
	}
}

// TestRow: servers have their slices in the order of turns, and a server that fails gets no more.
func TestRow(t *testing.T) {
	b := &bench{
		place: testPlace(t, "echo", "dial"), upstream: compiled(t, "upstream"), cpus: []int{0}, files: map[string]bool{},
		settings: result.Settings{Rounds: 3, Seconds: 0.1, Tries: 2, Foreign: float64(runtime.NumCPU()), Seed: 1},
	}
	echo := peer{name: result.Limit, program: ofTree("echo"), argv: peers[0].argv}
	contenders := []peer{echo, {name: "fails", program: ofTree("echo"), argv: []string{"no port"}}, echo}
	w := workload{Workload: result.Workload{Name: "test"}, ask: hot(10), short: true, rate: 500}
	var got, want []string
	failed := false
	for round := 1; round <= 3; round++ {
		for _, i := range turns(1, "test", round, 3) {
			if name := contenders[i].name; name != "fails" || !failed {
				failed = failed || name == "fails"
				want = append(want, fmt.Sprint(round, name))
			}
		}
	}
	for _, r := range b.row(t.Context(), w, contenders) {
		got = append(got, fmt.Sprint(r.Round, r.Peer))
		switch {
		case r.Peer == "fails":
			if r.Error == "" || r.Tries != 2 {
				t.Errorf("%+v", r)
			}
		case r.Error != "" || r.Answered == 0 || r.CPU <= 0 || r.P50 <= 0 || r.Max < r.P50:
			t.Errorf("%+v", r)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
}
