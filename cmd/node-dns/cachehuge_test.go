package main

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/test/dnstest"
	"github.com/node-dns/node-dns/internal/test/lab"
)

// manyNames is more than a dump may hold in memory.
const manyNames = 100_000

// TestHugeCache: a dump of 100,000 responses uses no more memory than an empty one, and queries are
// answered during the dump.
func TestHugeCache(t *testing.T) {
	if testing.Short() {
		t.Skip("takes ten seconds")
	}
	if lab.RaceEnabled {
		t.Skip("its memory is not that of the released program; make test runs it without -race")
	}
	site := dnstest.NewServer(t, "*.example. 300 IN A 192.0.2.80\nexample. 300 IN SOA a. b. 1 2 3 4 5\n")
	p := start(t, `mkdir -p $ROOT/etc/node-dns && printf 'cacheSize: 200000\n' >$ROOT/etc/node-dns/node-dns.yaml &&
exec node-dns --root $ROOT serve --listen 127.0.0.1:0 --upstream $SITE`, "SITE="+site.Addr().String())
	p.await("it is ready", func() bool { return p.has("/run/node-dns/ready") })
	server := netip.MustParseAddrPort(p.status().Listeners[0].Address)
	_, none := p.dumpToWC()
	fill := dnstest.Load{Server: server, Rate: manyNames, Count: manyNames, Window: 300, Asks: []dnstest.Ask{{Name: "n%d.example.", Type: dns.TypeA, Want: "192.0.2.80"}}}
	filling, err := fill.Start()
	if err != nil {
		t.Fatal(err)
	}
	if tally := filling.Wait(); tally.Lost+tally.Wrong > 0 {
		t.Fatal(tally)
	}
	beside := fill
	beside.Rate, beside.Count, beside.Asks = 1000, 0, []dnstest.Ask{{Name: "n7.example.", Type: dns.TypeA, Want: "192.0.2.80"}}
	asking, err := beside.Start()
	if err != nil {
		t.Fatal(err)
	}
	lines, memory := p.dumpToWC()
	if lines != manyNames {
		t.Errorf("%d lines", lines)
	}
	if memory > none+32<<10 {
		t.Errorf("the dump took %d KiB of memory, an empty one %d", memory, none)
	}
	if tally := asking.Stop(); tally.Lost+tally.Wrong > 0 || tally.Asked == 0 {
		t.Error(tally)
	}
	if text, code := p.runWith("cache", "flush", "--zone", "example"); text != fmt.Sprintf("flushed %d entries\n", manyNames) || code != exitOK {
		t.Errorf("%s, exit code %d", text, code)
	}
}

// dumpToWC returns the number of lines of a dump and its peak memory in KiB.
func (p *process) dumpToWC() (lines int, memory int64) {
	p.t.Helper()
	counted := filepath.Join(p.t.TempDir(), "count")
	cmd := exec.Command("node-dns", "--root", p.root, "cache", "dump")
	wc := exec.Command("sh", "-c", "wc -l >"+counted)
	var err error
	if wc.Stdin, err = cmd.StdoutPipe(); err != nil {
		p.t.Fatal(err)
	}
	var said strings.Builder
	cmd.Stderr = &said
	if err := wc.Start(); err != nil {
		p.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	for { // initially its rusage includes our own peak
		status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid))
		_, high, lives := strings.Cut(string(status), "\nVmHWM:")
		if !lives {
			break // it has ended
		}
		fmt.Sscan(high, &memory)
		time.Sleep(time.Millisecond)
	}
	if err := cmd.Wait(); err != nil {
		p.t.Errorf("%v: %s", err, &said)
	}
	if err := wc.Wait(); err != nil {
		p.t.Error(err)
	}
	text, err := os.ReadFile(counted)
	if err != nil {
		p.t.Fatal(err)
	}
	fmt.Sscan(string(text), &lines)
	return lines, memory
}
