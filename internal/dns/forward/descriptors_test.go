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

// outOfSockets matches a line of the log. Failures at the same time share one line.
var outOfSockets = regexp.MustCompile(`msg="no socket for an upstream query" error="too many open files" times=[0-9]+ condition=out-of-sockets`)

// TestNoDescriptors runs in a separate process with few file descriptors. Questions without a
// socket are shed and counted, and no server is blamed. Everything works again once the earlier
// questions are answered.
func TestNoDescriptors(t *testing.T) {
	const stage = "NODEDNS_FORWARD_FEW_FILES"
	if os.Getenv(stage) == "" {
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		child := exec.Command(self, "-test.run=^TestNoDescriptors$", "-test.timeout=1m")
		child.Env = append(os.Environ(), stage+"=1")
		if out, err := child.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	g := newGate(t)
	log := new(lab.Text)
	f := newForward(t, func(c *Config) { patient(c); c.Log = logger(log) }, g.address)
	const free = 20
	limitFiles(t, free)
	var clients sync.WaitGroup
	var answered, shed atomic.Int32
	for i := range 4 * free {
		clients.Go(func() {
			_, _, err := askFor(t, f, fmt.Sprintf("n%d.example.", i), dns.TypeA)
			switch {
			case err == nil:
				answered.Add(1)
			case errors.Is(err, ErrShed) && strings.Contains(err.Error(), "no socket for an upstream query: too many open files"):
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
	if text := log.String(); !outOfSockets.MatchString(text) || strings.Count(text, "\n") > 10 {
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
