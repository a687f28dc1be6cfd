package netns

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/internal/test/lab"
)

// maxFaults is the limit of page faults of a run of the hook. It had 606, and 6.4 ms of processor
// time, when it read all properties of all interfaces over a connection of godbus. It has 505, and
// 4.8 ms on the same machine.
const maxFaults = 550

// TestHookCost limits what a run of the installed hook costs for an event that changes nothing. It
// counts page faults: they cost a quarter of the processor time, grow with the memory and the code
// that a run uses, and do not depend on how busy the machine is. BenchmarkHook measures the time.
func TestHookCost(t *testing.T) {
	n := newHookNode(t)
	script := installedScript(t, installed(t, n.program))
	least := runHook(t, script, nil)
	for range 9 {
		one := runHook(t, script, nil)
		least.faults, least.spent = min(least.faults, one.faults), min(least.spent, one.spent)
	}
	t.Logf("a run of the hook: %d page faults, %v of processor time", least.faults, least.spent)
	if least.faults > maxFaults {
		t.Errorf("a run of the hook has %d page faults, want at most %d; see what it does more, and run BenchmarkHook", least.faults, maxFaults)
	}
}

// BenchmarkHook measures the CPU time and the page faults of one run of the hook for an event that
// changes nothing, while NetworkManager and node-dns run. NetworkManager runs the hook for each
// event of each interface. The program is a PIE, as in the RPM. "hook" includes the shell of the
// installed script, "program" is the program alone as the script runs it, and "default" is the
// program without the script's settings.
func BenchmarkHook(b *testing.B) {
	newHookNode(b)
	program := installed(b, lab.PIE(b, "./cmd/origin-dns-dispatcher"))
	for _, bench := range []struct {
		name, file string
		env        []string
		slack      time.Duration // of timers; 0 means the default, 50 µs
	}{
		{"hook", installedScript(b, program), nil, 0},
		{"program", program, []string{"GOMAXPROCS=1"}, time.Millisecond},
		{"default", program, nil, 0},
	} {
		b.Run(bench.name, func(b *testing.B) {
			runtime.LockOSThread() // a program inherits the slack of the thread that starts it
			defer runtime.UnlockOSThread()
			if err := unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(bench.slack), 0, 0, 0); err != nil {
				b.Fatal(err)
			}
			defer unix.Prctl(unix.PR_SET_TIMERSLACK, 0, 0, 0, 0)
			var sum cost
			for b.Loop() {
				one := runHook(b, bench.file, bench.env)
				sum.spent += one.spent
				sum.faults += one.faults
			}
			b.ReportMetric(float64(sum.faults)/float64(b.N), "faults/op")
			b.ReportMetric(float64(sum.spent.Microseconds())/1000/float64(b.N), "cpu-ms/op")
		})
	}
}

// newHookNode returns a node on which an event changes nothing.
func newHookNode(tb testing.TB) *node {
	n := newNode(tb)
	n.connect("eth0")
	n.await(right{Upstreams: []string{ns1}})
	return n
}

// cost is what a run costs.
type cost struct {
	spent  time.Duration // processor time
	faults int64
}

// runHook runs the hook for an event, as NetworkManager does.
func runHook(tb testing.TB, file string, env []string) cost {
	tb.Helper()
	cmd := exec.Command(file, "eth0", "dhcp4-change")
	cmd.Env = append(append(os.Environ(), "DEVICE_IP_IFACE=eth0", "NM_DISPATCHER_ACTION=dhcp4-change"), env...)
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "source=NetworkManager") {
		tb.Fatalf("%v\n%s", err, out)
	}
	state := cmd.ProcessState
	return cost{state.UserTime() + state.SystemTime(), state.SysUsage().(*syscall.Rusage).Minflt}
}

// installed returns the path of a copy of the program. The kernel caches a file that was copied in
// larger pieces than one that the linker wrote, so a run of the copy costs a tenth less.
func installed(tb testing.TB, program string) string {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "origin-dns-dispatcher")
	if out, err := exec.Command("cp", program, path).CombinedOutput(); err != nil {
		tb.Fatalf("%v\n%s", err, out)
	}
	return path
}

// installedScript returns the path of a copy of the packaged hook that runs this program.
func installedScript(tb testing.TB, program string) string {
	tb.Helper()
	text, err := os.ReadFile("../../packaging/networkmanager/99-origin-dns")
	if err != nil {
		tb.Fatal(err)
	}
	path := filepath.Join(tb.TempDir(), "99-origin-dns")
	text = []byte(strings.ReplaceAll(string(text), "/usr/libexec/node-dns/origin-dns-dispatcher", program))
	if err := os.WriteFile(path, text, 0o755); err != nil {
		tb.Fatal(err)
	}
	return path
}
