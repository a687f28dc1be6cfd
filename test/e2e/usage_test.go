package e2e

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// memory returns a line of /proc/PID/status in MiB: VmRSS is the resident memory of a process,
// VmHWM its peak.
func memory(t testing.TB, pid int, line string) float64 {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(status), line+":")
	kib, err := strconv.ParseFloat(strings.Fields(rest + " -")[0], 64)
	if !found || err != nil {
		t.Fatalf("process %[2]d has no %[1]s in its status", line, pid)
	}
	return kib / 1024
}

// forgetPeak resets VmHWM to VmRSS (proc_pid_clear_refs(5): 5).
func forgetPeak(t testing.TB, pid int) {
	t.Helper()
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0); err != nil {
		t.Fatal(err)
	}
}

// processorTime returns the user and system CPU time of a process.
func processorTime(t testing.TB, pid int) time.Duration {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	// proc_pid_stat(5): the fields follow the name, which is in parentheses. utime and stime are
	// fields 14 and 15, in ticks of 10 ms (sysconf(_SC_CLK_TCK) is 100 on Linux).
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	var ticks int
	for _, field := range fields[11:13] {
		n, err := strconv.Atoi(field)
		if err != nil {
			t.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}
