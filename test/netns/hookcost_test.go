package netns

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// BenchmarkHook measures the CPU time and the page faults of one run of the hook for an event that
// changes nothing, while NetworkManager and node-dns run. NetworkManager runs the hook for each
// event of each interface. "hook" includes the shell of the installed script, "program" is the
// program alone, and "default" is the program without the script's GOMAXPROCS.
func BenchmarkHook(b *testing.B) {
	n := newNode(b)
	n.connect("eth0")
	n.await(right{Upstreams: []string{ns1}})
	for _, bench := range []struct {
		name, file string
		env        []string
	}{
		{"hook", installedScript(b, n.program), nil},
		{"program", n.program, []string{"GOMAXPROCS=1"}},
		{"default", n.program, nil},
	} {
		b.Run(bench.name, func(b *testing.B) {
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
