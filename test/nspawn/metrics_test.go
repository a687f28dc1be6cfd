package nspawn

import (
	"strings"
	"testing"
)

// TestMetrics: under its unit's restrictions the daemon serves its metrics to any process of the
// host, including those of its own process, and also after a restart.
func TestMetrics(t *testing.T) {
	n := newServingNode(t)
	get := func(path string) string {
		out, _ := n.Try("runuser", "--user", "nobody", "--", "bash", "-c", `exec 3<>/dev/tcp/127.0.0.1/9453 && printf 'GET %s HTTP/1.0\r\n\r\n' "$0" >&3 && cat <&3`, path)
		return out
	}
	const ok = "HTTP/1.0 200 OK\r\n"
	shown := func() bool { return strings.HasPrefix(get("/ready"), ok) && strings.HasPrefix(get("/health"), ok) }
	n.Await("metrics", shown)
	if out := n.Run("node-dns", "status"); !strings.Contains(out, "   metrics 127.0.0.1:9453\n") {
		t.Errorf("the status does not name the metrics:\n%s", out)
	}
	scrape := get("/metrics")
	for _, name := range []string{"nodedns_ready 1\n", "nodedns_resolvconf_ours 1\n", "process_resident_memory_bytes ", "process_open_fds ", "process_cpu_seconds_total ", "go_goroutines "} {
		if !strings.Contains(scrape, "\n"+name) {
			t.Errorf("a scrape lacks %q", name)
		}
	}
	if t.Failed() {
		t.Log(scrape)
	}
	n.Run("systemctl", "restart", "node-dns.service")
	n.awaitServing()
	n.Await("metrics after a restart", shown)
}
