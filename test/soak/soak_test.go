package soak

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/test/kubetest"
	"github.com/node-dns/node-dns/internal/test/lab"
)

// sample is the node's resource usage while the clients over UDP pause.
type sample struct {
	at         time.Duration
	goroutines int
	files      int
	memory     float64 // MiB
}

func (s sample) String() string {
	return fmt.Sprintf("%6.0f s: %d goroutines, %d files, %.0f MiB", s.at.Seconds(), s.goroutines, s.files, s.memory)
}

// Limits for the increase of a sample over the one after the first round. They allow for short-term
// variation only.
const (
	moreGoroutines = 100
	moreFiles      = 260
	moreMemory     = 12  // MiB
	mostMemory     = 128 // MiB, at any time
)

// TestSoak runs the load described in the package comment. `make soak` runs it for 10 minutes.
func TestSoak(t *testing.T) {
	r := newRig(t)
	tally := newTally()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var load, all sync.WaitGroup
	began := time.Now()
	n := 0
	for _, p := range parts {
		for range p.clients {
			c := newClient(t, tally, n, p.window, r.at)
			load.Go(func() { c.run(ctx, float64(*rate)*p.share/float64(p.clients), p.plan) })
			n++
		}
	}
	all.Go(func() { tally.watch(ctx.Done()) })
	load.Go(func() { overTCP(ctx, tally, netip.MustParseAddr("127.1.1.1"), r.at) })
	all.Go(func() { hostile(ctx, r.at) })
	var samples []sample
	r.play(*length, tally, func() {
		tally.paused.Store(true) // a lane keeps up to 1,024 idle sockets while it is busy, and then closes them
		samples = append(samples, r.sample(began, samples))
		tally.paused.Store(false)
	})
	cancel()
	load.Wait()
	took := time.Since(began)
	all.Wait()
	r.judge(t, tally, samples, took)
}

// sample measures until the values are low, after the first round, or not above those. A query that
// waits for an upstream nameserver has a socket, and a lane closes its idle ones when it is no
// longer busy, so high values soon drop. A leak remains.
func (r *rig) sample(began time.Time, before []sample) (now sample) {
	lab.Poll(10*time.Second, func() bool {
		status, ok := r.status()
		if ok {
			memory, _ := r.memory()
			now = sample{time.Since(began), status.Process.Goroutines, r.files(), memory}
		}
		return ok && (len(before) == 0 && now.goroutines < 2*moreGoroutines && now.files < moreFiles || len(before) > 0 && now.isLike(before[0]))
	})
	return now
}

func newRig(t *testing.T) *rig {
	r := &rig{node: newNode(t), sites: [2]*site{newSite(t), newSite(t)}, api: kubetest.NewServer(t)}
	r.api.Apply(kubetest.Shop(serviceIP))
	r.write("/etc/node-dns/kubeconfig", string(r.api.Kubeconfig()))
	r.usual = config{listen: []netip.AddrPort{r.at}, upstreams: []netip.AddrPort{r.sites[0].at, r.sites[1].at}, level: "info"}
	r.configure(r.usual)
	r.start("")
	r.await("the cluster to be known", func(s control.Status) bool { return s.Cluster.Resolver != nil && s.Cluster.Resolver.Phase == "synced" })
	return r
}

func (r *rig) judge(t *testing.T, tally *tally, samples []sample, took time.Duration) {
	status, ok := r.status()
	now, most := r.memory()
	flat := true
	for _, s := range samples[min(1, len(samples)):] {
		flat = flat && s.isLike(samples[0])
	}
	if flat {
		r.end()
	} else {
		r.dump()
	}
	text, bad, asked := tally.report()
	t.Logf("%d questions in %v, %.0f per second\n%s", asked, took.Round(time.Second), float64(asked)/took.Seconds(), text)
	for _, s := range samples {
		t.Log(s)
	}
	lines := strings.Count(r.process.Output(), "\n")
	t.Logf("%.0f MiB at the end, %.0f at most; %d lines in the log", now, most, lines)
	if !ok {
		t.Fatalf("the daemon no longer answers:\n%s", tail(r.process.Output()))
	}
	if bad > 0 || asked == 0 {
		t.Errorf("%d of %d questions were not answered correctly\n%s", bad, asked, tail(r.process.Output()))
	}
	if status.Queries.Panics > 0 {
		t.Errorf("got %d panics:\n%s", status.Queries.Panics, tail(r.process.Output()))
	}
	if most > mostMemory {
		t.Errorf("used up to %.0f MiB, more than %d", most, mostMemory)
	}
	// A fault is logged a few times, regardless of the load.
	if rounds := len(samples); lines > 300*(rounds+1) {
		t.Errorf("got %d log lines in %d rounds", lines, rounds)
	}
	if len(samples) < leastRounds {
		t.Fatalf("got only %d samples", len(samples))
	}
	if !flat {
		t.Errorf("resource usage grew; compare the samples. Goroutines:\n%s", goroutines(r.process.Output()))
	}
}

func (s sample) isLike(first sample) bool {
	return s.goroutines <= first.goroutines+moreGoroutines && s.files <= first.files+moreFiles && s.memory <= first.memory+moreMemory
}

// dump aborts the process so that it prints its goroutines.
func (r *rig) dump() {
	r.process.Signal(syscall.SIGABRT)
	lab.Poll(30*time.Second, func() bool { return !r.process.Running() })
}

// goroutines returns the distinct stacks of a dump with their counts.
func goroutines(text string) string {
	kinds := map[string]int{}
	for _, stack := range strings.Split(text, "\n\n") {
		if !strings.HasPrefix(stack, "goroutine ") {
			continue
		}
		var functions []string
		for line := range strings.Lines(stack) {
			if name, _, isCall := strings.Cut(line, "("); isCall && !strings.HasPrefix(line, "\t") && !strings.HasPrefix(line, "goroutine ") {
				functions = append(functions, name)
			}
		}
		kinds[strings.Join(functions[:min(6, len(functions))], " < ")]++
	}
	var lines []string
	for kind, n := range kinds {
		lines = append(lines, fmt.Sprintf("%5d %s", n, kind))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// tail returns the end of a log.
func tail(text string) string { return text[max(0, len(text)-8000):] }
