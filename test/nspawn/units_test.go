package nspawn

import (
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/node-dns/node-dns/internal/test/lab"
)

// TestExposure bounds the units' exposure by systemd-analyze(1), from 0 (safe) to 10. dnsmasq's
// unit has 9.6, systemd-resolved's 2.2.
func TestExposure(t *testing.T) {
	l := lab.New(t)
	for unit, most := range map[string]float64{"node-dns.service": 1.5, "node-dns-intercept.service": 2.0, "node-dns-apply.service": 4.0} { // the last runs as root
		out := l.Run("systemd-analyze", "security", "--offline=true", "--no-pager", filepath.Join(repository, "systemd", unit))
		m := regexp.MustCompile(`Overall exposure level for \S+: ([0-9.]+)`).FindStringSubmatch(out)
		if m == nil {
			t.Fatalf("systemd-analyze prints no level:\n%s", out)
		}
		if level, err := strconv.ParseFloat(m[1], 64); err != nil || level > most {
			t.Errorf("%s: got exposure %s, want at most %.1f:\n%s", unit, m[1], most, out)
		}
	}
}

// agents are units that start after node-dns, as their packages define them.
var agents = map[string]string{
	"origin-node.service": "After=network-online.target nss-lookup.target\nWants=network-online.target\n",
	"kubelet.service":     "After=network-online.target\nWants=network-online.target\n",

	"atomic-openshift-node.service": "After=docker.service\n",
}

// moment returns when a unit entered a state, in µs since boot.
func (n *node) moment(unit, state string) int {
	n.t.Helper()
	at, err := strconv.Atoi(n.property(unit, state+"TimestampMonotonic"))
	if err != nil || at == 0 {
		n.t.Fatalf("%s of %s: %d, %v", state, unit, at, err)
	}
	return at
}

// TestVerify: systemd reports no problem with the units, and no ordering cycle at boot with
// everything enabled. node-dns is ready before a node agent starts.
func TestVerify(t *testing.T) {
	n := newNode(t)
	for name, order := range agents {
		n.WriteFile("/etc/systemd/system/"+name, "[Unit]\n"+order+"[Service]\nType=oneshot\nExecStart=/bin/true\nRemainAfterExit=yes\n"+
			"[Install]\nWantedBy=multi-user.target\n", 0o644)
		n.Enable(name)
	}
	n.Enable("node-dns.service", "node-dns@"+nodeIP+".socket", `node-dns@\x5bfd77::100\x5d.socket`, "NetworkManager-wait-online.service")
	n.boot()
	argv := []string{"systemd-analyze", "verify", "--man=no", "multi-user.target"}
	for _, unit := range units {
		argv = append(argv, unitFiles+strings.Replace(unit, "@.", "@"+nodeIP+".", 1))
	}
	for line := range strings.Lines(n.Run(argv...)) {
		if strings.Contains(line, "node-dns") || strings.Contains(line, "cycle") {
			t.Errorf("systemd-analyze verify: %s", line)
		}
	}
	if log := n.Journal("_PID=1"); strings.Contains(log, "cycle") {
		t.Errorf("the boot order has a cycle:\n%s", log)
	}
	for name := range agents {
		if got := n.property(name, "ActiveState"); got != "active" {
			t.Errorf("%s: got %s", name, got)
		}
		if began, ready := n.moment(name, "InactiveExit"), n.moment("node-dns.service", "ActiveEnter"); began < ready {
			t.Errorf("%s started %d µs before node-dns was ready", name, ready-began)
		}
	}
	for _, at := range []string{nodeIP + ":53", "[fd77::100]:53"} {
		if got := n.Run("ss", "-lntuH", "src", at); strings.Count(got, at) != 2 {
			t.Errorf("systemd has no sockets at %s:\n%s", at, got)
		}
	}
}
