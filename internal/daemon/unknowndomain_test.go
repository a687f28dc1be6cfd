package daemon

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/test/dnstest"
	"github.com/node-dns/node-dns/internal/test/lab"
)

// TestUnknownDomain: a node with an unreadable cluster domain does not resolve and reports why.
// Once the domain is known, it resolves.
func TestUnknownDomain(t *testing.T) {
	t.Parallel()
	site := dnstest.NewServer(t, siteRecords)
	const nodeConfig = "/etc/origin/node/node-config.yaml"
	log := new(lab.Text)
	r := launch(t, map[string]string{upstreamPath: upstreamFile(site), nodeConfig: "dnsDomain: corp..test\n"}, func(c *Config) {
		c.Log = slog.New(slog.NewTextHandler(log, nil))
	})
	r.await("the daemon is up", func() bool { return r.status().PID != 0 })
	status := r.status()
	if status.Ready || len(status.Listeners) > 0 || status.Cluster.Domain != "" {
		t.Errorf("status %+v", status)
	}
	for _, want := range []string{"not listening while the cluster domain is unknown", "node-config.yaml:1:12: dnsDomain"} {
		if !strings.Contains(strings.Join(status.Problems, "\n"), want) {
			t.Errorf("problems %q, want %q", status.Problems, want)
		}
	}
	if _, err := os.Stat(filepath.Join(r.root, "/run/node-dns/ready")); err == nil {
		t.Error("the status is ready")
	}
	write(t, filepath.Join(r.root, nodeConfig), "dnsDomain: corp.test\n")
	r.await("the daemon listens", func() bool { return len(r.status().Listeners) > 0 })
	if m := dnstest.Exchange(t, r.address(), "web.corp.test.", dns.TypeA); m.Rcode != dns.RcodeServerFailure {
		t.Errorf("a cluster name: %v", m)
	}
	write(t, filepath.Join(r.root, nodeConfig), "dnsDomain: other.test\n")
	r.await("the daemon follows", func() bool { return r.status().Cluster.Domain == "other.test." })
	if m := dnstest.Exchange(t, r.address(), "web.other.test.", dns.TypeA); m.Rcode != dns.RcodeServerFailure {
		t.Errorf("a cluster name: %v", m)
	}
	for _, cluster := range []string{"web.corp.test.", "web.other.test."} {
		if n := site.QueriesFor(cluster, dns.TypeA); n != 0 {
			t.Errorf("the site's nameserver received %[2]d queries for %[1]s", cluster, n)
		}
	}
	at := 0 // position in the log; the conditions must appear in this order
	for _, condition := range []string{
		"condition=config-fault", "condition=problem", "condition=not-ready", // it starts
		"condition=config-taken-over", "condition=ready", "condition=problem-solved", "condition=config-taken-over",
	} {
		_, after, found := strings.Cut(log.String()[at:], " "+condition+"\n")
		if !found {
			t.Fatalf("the log has no %s after %q:\n%s", condition, log.String()[:at], log)
		}
		at = len(log.String()) - len(after)
	}
}
