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

// TestUniqueNames: while a million names pass that are asked for once, those that are asked for again stay in the cache, and
// memory is bounded.
func TestUniqueNames(t *testing.T) {
	r := newNames(t, "", "")
	asked := r.pass(*names)
	hits := 1 - float64(r.site.hot.Load())/float64(asked)
	now, most := r.memory()
	t.Logf("%d names, and %d questions for 100 others: %.2f %% of these from memory; %.0f MiB, %.0f at most", *names, asked, 100*hits, now, most)
	if hits < 0.99 {
		t.Errorf("of the hot names %.2f %% were answered from memory", 100*hits)
	}
	if most > mostMemory {
		t.Errorf("%.0f MiB at most", most)
	}
	r.end()
}

// TestMemoryLimit: in a control group of 64 MiB, which a cache of a million names does not fit, it lives, shrinks the cache and
// says so once, and remembers the names that are asked for again.
func TestMemoryLimit(t *testing.T) {
	const limit, names = 64 << 20, 200_000
	group := newGroup(t, limit)
	r := newNames(t, fmt.Sprintf("echo $$ >%s/cgroup.procs && ", group), "cacheSize: 1000000\n")
	asked := r.pass(names)
	status, ok := r.status()
	if !ok {
		t.Fatalf("it does not answer any more:\n%s", tail(r.process.Output()))
	}
	hits := 1 - float64(r.site.hot.Load())/float64(asked)
	now, most := r.memory()
	t.Logf("%d entries; %.2f %% of the hot names from memory; Go's limit %d MiB, %.0f MiB, %.0f at most",
		status.Cache.Entries, 100*hits, status.Process.MemoryLimit>>20, now, most)
	if status.Process.MemoryLimit != limit/2 {
		t.Errorf("Go's limit is %d", status.Process.MemoryLimit)
	}
	if status.Cache.Entries >= names || hits < 0.99 {
		t.Error("the cache has not shrunk, or not rightly")
	}
	if told := strings.Count(r.process.Output(), `msg="memory is short`); told == 0 || told > 10 {
		t.Errorf("it is said %d times that memory is short:\n%s", told, tail(r.process.Output()))
	}
	r.end()
}

// A namesRig is a node with one upstream nameserver, and no cluster.
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

// pass has so many names pass, and returns how many questions there were for others.
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
		r.t.Errorf("only %d names have passed", unique.Load()-first)
	}
	cancel()
	load.Wait()
	text, bad, asked := tally.report()
	if bad > 0 {
		r.t.Errorf("not all were answered as they should be\n%s%s", text, tail(r.process.Output()))
	}
	return asked / len(plan)
}

// newGroup makes a control group with a limit of memory, of whatever version has that here.
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
