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

// BenchmarkHook measures the CPU time and the page faults of one run of the hook for an event that
// changes nothing, while NetworkManager and node-dns run. NetworkManager runs the hook for each
// event of each interface. The program is a PIE, as in the RPM. "hook" includes the shell of the
// installed script, "program" is the program alone as the script runs it, and "default" is the
// program without the script's settings.
func BenchmarkHook(b *testing.B) {
	n := newNode(b)
	n.connect("eth0")
	n.await(right{Upstreams: []string{ns1}})
	program := installed(b, lab.PIE(b, "./cmd/origin-dns-dispatcher"))
	for _, bench := range []struct {
		name, file string
		env        []string
		slack      time.Duration // of timers; 0 means the default, 50 µs
	}{
		{"hook", installedScript(b, program), nil, 0},
		{"program", program, []string{"GOMAXPROCS=1"}, 5 * time.Millisecond},
		{"default", program, nil, 0},
	} {
		b.Run(bench.name, func(b *testing.B) {
			runtime.LockOSThread() // a program inherits the slack of the thread that starts it
			defer runtime.UnlockOSThread()
			if err := unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(bench.slack), 0, 0, 0); err != nil {
				b.Fatal(err)
			}
			defer unix.Prctl(unix.PR_SET_TIMERSLACK, 0, 0, 0, 0)
			var spent time.Duration
			var faults int64
			for b.Loop() {
				cmd := exec.Command(bench.file, "eth0", "dhcp4-change")
				cmd.Env = append(append(os.Environ(), "DEVICE_IP_IFACE=eth0", "NM_DISPATCHER_ACTION=dhcp4-change"), bench.env...)
				if out, err := cmd.CombinedOutput(); err != nil {
					b.Fatalf("%v\n%s", err, out)
				}
				spent += cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
				faults += cmd.ProcessState.SysUsage().(*syscall.Rusage).Minflt
			}
			b.ReportMetric(float64(faults)/float64(b.N), "faults/op")
			b.ReportMetric(float64(spent.Microseconds())/1000/float64(b.N), "cpu-ms/op")
		})
	}
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
