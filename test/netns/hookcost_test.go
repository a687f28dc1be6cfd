package netns

import (
	"os"
	"os/exec"
	"testing"
	"time"
)

// BenchmarkHook measures the CPU time of one run of the hook for an event that changes nothing,
// while NetworkManager and node-dns run. NetworkManager runs the hook for each event of each
// interface.
func BenchmarkHook(b *testing.B) {
	n := newNode(b)
	n.connect("eth0")
	n.await(right{Upstreams: []string{ns1}})
	var spent time.Duration
	for b.Loop() {
		cmd := exec.Command(n.program, "eth0", "dhcp4-change")
		cmd.Env = append(os.Environ(), "DEVICE_IP_IFACE=eth0", "NM_DISPATCHER_ACTION=dhcp4-change")
		if out, err := cmd.CombinedOutput(); err != nil {
			b.Fatalf("%v\n%s", err, out)
		}
		spent += cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	}
	b.ReportMetric(float64(spent.Microseconds())/1000/float64(b.N), "cpu-ms/op")
}
