package nspawn

import (
	"strings"
	"syscall"
	"testing"
)

// TestWatchdog: the watchdog ends a hung daemon, and the next one serves.
func TestWatchdog(t *testing.T) {
	n := newServingNode(t)
	pid := n.mainPID()
	n.Run("kill", "-STOP", pid)
	n.Await("another process", func() bool { return n.mainPID() != pid && n.mainPID() != "0" })
	n.awaitServing()
	if log := n.Journal("--unit=node-dns.service"); !strings.Contains(log, "node-dns.service: Watchdog timeout") ||
		!strings.Contains(log, "node-dns.service: Failed with result 'watchdog'") {
		t.Error("the watchdog did not end the daemon")
	}
	if got := n.Run("systemctl", "show", "--value", "--property=WatchdogUSec", "node-dns.service"); got != "3s\n" {
		t.Errorf("got WatchdogSec=%s", got)
	}
}

// TestWatchdogIsContent: the watchdog does not end a daemon under load, or one with nowhere to
// listen yet.
func TestWatchdogIsContent(t *testing.T) {
	n := newLeasedNode(t)
	n.WriteFile("/etc/node-dns/node-dns.yaml", "listen: ["+nodeIP+":53, 192.0.2.1:53]\n", 0o644) // the node has only the first one
	n.Run("systemctl", "enable", "--now", "node-dns.service")
	n.awaitPointed()
	pid := n.mainPID()
	flood := n.pods.Start("sh", "-c", "for i in 1 2 3 4; do (while :; do dig +tries=1 +time=1 @"+nodeIP+" who.test TXT >/dev/null; done) & done; wait")
	signs := func() string { return n.property("node-dns.service", "WatchdogTimestampMonotonic") }
	for range 6 { // three watchdog timeouts
		last := signs()
		n.Await("another sign of life", func() bool { return signs() != last })
	}
	flood.Signal(syscall.SIGKILL)
	if got := n.mainPID(); got != pid {
		t.Errorf("got process %[2]s, want %[1]s", pid, got)
	}
}
