package forward

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/miekg/dns"
	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/internal/dns/exchange"
	"github.com/node-dns/node-dns/internal/test/lab"
)

// TestNoDescriptors runs in a separate process with few file descriptors. Questions without a
// socket are shed and counted, and no server is blamed. Everything works again once the earlier
// questions are answered.
func TestNoDescriptors(t *testing.T) {
	if isStage("-test.run=^TestNoDescriptors$") {
		starve(t, "too many open files", limitFiles)
		return
	}
	runStage(t, os.Args[0], "-test.run=^TestNoDescriptors$")
}

// TestNoPorts does the same where other programs use nearly all ports. The server was marked as
// down: connect(2) returns EAGAIN then for UDP.
func TestNoPorts(t *testing.T) {
	if isStage("-test.run=^TestNoPorts$") {
		starve(t, "resource temporarily unavailable", limitPorts)
		return
	}
	lab.NeedPrograms(t, "unshare", "ip")
	if out, err := exec.Command("unshare", "--map-root-user", "--net", "true").CombinedOutput(); err != nil {
		lab.Skip(t, "needs a network namespace: %v: %s", err, out)
	}
	runStage(t, "unshare", "--map-root-user", "--net", "sh", "-c", `ip link set lo up && exec "$0" "$@"`, os.Args[0], "-test.run=^TestNoPorts$")
}

const stage = "NODEDNS_FORWARD_FEW_SOCKETS"

func isStage(name string) bool { return os.Getenv(stage) == name }

// runStage runs a command in another process. Its last argument selects the test.
func runStage(t *testing.T, argv ...string) {
	t.Helper()
	child := exec.Command(argv[0], append(argv[1:], "-test.timeout=1m")...)
	child.Env = append(os.Environ(), stage+"="+argv[len(argv)-1])
	if out, err := child.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// starve asks more questions than this process gets sockets, after limit. reason is the expected
// error.
func starve(t *testing.T, reason string, limit func(t *testing.T, free uint64)) {
	g := newGate(t)
	log := new(lab.Text)
	f := newForward(t, func(c *Config) { patient(c); c.Log = logger(log) }, g.address)
	const free = 20
	limit(t, free)
	var clients sync.WaitGroup
	var answered, shed atomic.Int32
	for i := range 4 * free {
		clients.Go(func() {
			_, _, err := askFor(t, f, fmt.Sprintf("n%d.example.", i), dns.TypeA)
			switch {
			case err == nil:
				answered.Add(1)
			case errors.Is(err, ErrShed) && strings.Contains(err.Error(), "no socket for an upstream query: "+reason):
				shed.Add(1)
			default:
				t.Errorf("n%d: %v", i, err)
			}
		})
	}
	await(t, "all are asked or shed, and counted", func() bool { // one in flight may still be shed
		s := f.Stats()
		return s.InFlight > 0 && s.InFlight < 2*free && int(shed.Load())+s.InFlight == 4*free && s.Starved > 0 && int32(s.Shed) == shed.Load()
	})
	// Failures at the same time share one line.
	logged := regexp.MustCompile(`msg="no socket for an upstream query" error="` + reason + `" times=[0-9]+ condition=out-of-sockets`)
	if text := log.String(); !logged.MatchString(text) || strings.Count(text, "\n") > 10 {
		t.Errorf("got log:\n%s", text)
	}
	g.open()
	clients.Wait()
	if answered.Load() == 0 || shed.Load() == 0 || answered.Load()+shed.Load() != 4*free {
		t.Errorf("%d answered, %d shed", answered.Load(), shed.Load())
	}
	for i := range 4 * free {
		if _, _, err := askFor(t, f, fmt.Sprintf("m%d.example.", i), dns.TypeA); err != nil {
			t.Errorf("afterwards, m%d: %v", i, err)
		}
	}
	if s := stateOf(f, g.address); s.State != exchange.Up || s.Failures != 0 {
		t.Errorf("a lack of sockets was blamed on the server: %+v", s)
	}
}

// limitFiles limits the process to the given number of additional open files.
func limitFiles(t *testing.T, free uint64) {
	t.Helper()
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	limit := uint64(len(open)) + free
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: limit, Max: limit}); err != nil {
		t.Fatal(err)
	}
}

// limitPorts gives this network namespace few ports.
func limitPorts(t *testing.T, free uint64) {
	t.Helper()
	const first = 50000
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_local_port_range", fmt.Appendf(nil, "%d %d", first, first+free-1), 0); err != nil {
		t.Fatal(err)
	}
}
