package soak

import (
	"context"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/internal/test/lab"
)

var names = flag.Uint64("soak.names", 100_000, "how many names that nobody has asked for pass in TestUniqueNames")

// TestUniqueNames proves that frequently queried names stay in the cache while a million unique
// names pass, and that memory is bounded.
func TestUniqueNames(t *testing.T) {
	r := newNames(t, "", "")
	asked := r.pass(*names)
	hits := 1 - float64(r.site.hot.Load())/float64(asked)
	now, most := r.memory()
	t.Logf("%d names, and %d questions for 100 others: %.2f %% of these from the cache; %.0f MiB, %.0f at most", *names, asked, 100*hits, now, most)
	if hits < 0.99 {
		t.Errorf("%.2f %% of the hot names were answered from the cache", 100*hits)
	}
	if most > mostMemory {
		t.Errorf("used up to %.0f MiB", most)
	}
	r.end()
}

// TestMemoryLimit proves that, in a control group of 64 MiB that is too small for a cache of a
// million names, the process survives, shrinks the cache, logs that once, and keeps frequently
// queried names.
func TestMemoryLimit(t *testing.T) {
	const limit, names = 64 << 20, 200_000
	group := newGroup(t, limit)
	r := newNames(t, fmt.Sprintf("echo $$ >%s/cgroup.procs && ", group), "cacheSize: 1000000\n")
	asked := r.pass(names)
	status, ok := r.status()
	if !ok {
		t.Fatalf("the daemon no longer answers:\n%s", tail(r.process.Output()))
	}
	hits := 1 - float64(r.site.hot.Load())/float64(asked)
	now, most := r.memory()
	t.Logf("%d entries; %.2f %% of the hot names from the cache; Go's limit %d MiB, %.0f MiB, %.0f at most",
		status.Cache.Entries, 100*hits, status.Process.MemoryLimit>>20, now, most)
	if status.Process.MemoryLimit != limit/2 {
		t.Errorf("got Go memory limit %d", status.Process.MemoryLimit)
	}
	if status.Cache.Entries >= names || hits < 0.99 {
		t.Error("the cache did not shrink as expected")
	}
	if told := strings.Count(r.process.Output(), `msg="memory is short`); told == 0 || told > 10 {
		t.Errorf("memory shortage was logged %d times:\n%s", told, tail(r.process.Output()))
	}
	r.end()
}

// namesRig is a node with one upstream nameserver and no cluster.
type namesRig struct {
	*node
	site *site
}

func newNames(t *testing.T, shell, more string) *namesRig {
	r := &namesRig{node: newNode(t), site: newSite(t)}
	r.configure(config{listen: []netip.AddrPort{r.at}, upstreams: []netip.AddrPort{r.site.at}, level: "info", more: "kubeconfig: none\n" + more})
	r.start(shell)
	return r
}

// pass sends queries for count unique names and returns the number of questions for hot names.
func (r *namesRig) pass(count uint64) (hot int) {
	tally := newTally()
	tally.begin("unique names", false)
	ctx, cancel := context.WithCancel(r.t.Context())
	defer cancel()
	plan := []kind{miss, miss, miss, miss, miss, miss, miss, miss, miss, hit}
	var load sync.WaitGroup
	first := unique.Load()
	for n := range 8 {
		c := newClient(r.t, tally, n, 24, r.at)
		load.Go(func() { c.run(ctx, 5000, plan) })
	}
	if !lab.Poll(15*time.Minute, func() bool { return unique.Load()-first >= count || !r.process.Running() }) || !r.process.Running() {
		r.t.Errorf("only %d names passed", unique.Load()-first)
	}
	cancel()
	load.Wait()
	text, bad, asked := tally.report()
	if bad > 0 {
		r.t.Errorf("not all questions were answered correctly\n%s%s", text, tail(r.process.Output()))
	}
	return asked / len(plan)
}

// newGroup creates a control group with a memory limit, with either version of control groups.
func newGroup(t *testing.T, limit int64) string {
	if os.Geteuid() != 0 {
		lab.Skip(t, "makes a control group, which takes root")
	}
	for _, kind := range []struct{ root, file string }{{"/sys/fs/cgroup/memory", "memory.limit_in_bytes"}, {"/sys/fs/cgroup", "memory.max"}} {
		group, err := os.MkdirTemp(kind.root, "node-dns-soak-")
		if err != nil {
			continue
		}
		t.Cleanup(func() { lab.Poll(10*time.Second, func() bool { return unix.Rmdir(group) == nil }) })
		if os.WriteFile(filepath.Join(group, kind.file), []byte(strconv.FormatInt(limit, 10)), 0o644) == nil {
			return group
		}
	}
	t.Skip("no control group here can limit memory")
	return ""
}
