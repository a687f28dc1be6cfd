package daemon

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/node-dns/node-dns/internal/test/lab"
)

// TestLogLikeDnsmasq: our log has the lines that dnsmasq writes about its servers. For standard
// servers dnsmasq writes one line per domain, and node-dns one per server.
func TestLogLikeDnsmasq(t *testing.T) {
	lab.NeedPrograms(t, "dnsmasq")
	const conf = "no-hosts\nserver=192.0.2.1\nserver=/a.test/192.0.2.2#5353\nserver=//192.0.2.3\nlocal=/home/\nserver=/x.a.test/#\nserver=192.0.2.9@lo\n" +
		"rev-server=192.168.0.0/24,192.0.2.4\nserver=2001:db8::1"
	log := new(lab.Text)
	r := start(t, map[string]string{"/etc/dnsmasq.conf": conf, "/etc/node-dns/node-dns.yaml": "clusterDomain: cluster.test\n"}, func(c *Config) {
		c.Log = slog.New(slog.NewTextHandler(log, nil))
	})
	lab.StartDnsmasq(t, r.root, conf)
	theirs, err := os.ReadFile(filepath.Join(r.root, "theirs.log"))
	if err != nil {
		t.Fatal(err)
	}
	lines := func(text string) (lines []string) {
		for line := range strings.Lines(text) {
			_, line, found := strings.Cut(line, "using ")
			if line = strings.TrimRight(line, " \n\""); found && !strings.Contains(line, "standard nameservers") && !strings.HasSuffix(line, "for domain x.a.test") {
				lines = append(lines, line)
			}
		}
		slices.Sort(lines)
		return slices.Compact(lines) // dnsmasq writes them again for each inotify event
	}
	if diff := gocmp.Diff(lines(string(theirs)), lines(log.String())); diff != "" {
		t.Errorf("-dnsmasq +node-dns\n%s", diff)
	}
}
