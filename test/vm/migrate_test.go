package vm

import (
	"strings"
	"testing"

	"github.com/node-dns/node-dns/internal/test/lab"
)

// TestMigrate migrates a node from 99-origin-dns.sh and dnsmasq, which the policy confines, and
// back.
func TestMigrate(t *testing.T) {
	t.Run("confined", func(t *testing.T) { migrate(t, true) })
	if !testing.Short() {
		t.Run("alone", func(t *testing.T) { migrate(t, false) })
	}
}

func migrate(t *testing.T, confined bool) {
	g := newNode(t, strictest(), confined)
	put := func(path, mode, text string) {
		g.Run("mkdir -p $(dirname " + path + ") && cat >" + path + " <<'EOT'\n" + text + "EOT\nchmod " + mode + " " + path + "; restorecon -F " + path)
	}
	g.Run("rm -f /etc/systemd/system/dnsmasq.service; mkdir -p /etc/origin/node")
	put("/usr/lib/systemd/system/dnsmasq.service", "644", lab.DnsmasqService)
	put("/etc/dnsmasq.conf", "644", "conf-dir=/etc/dnsmasq.d\n")
	put("/etc/dnsmasq.d/origin-dns.conf", "644", lab.OldDnsmasqConfig)
	put("/etc/NetworkManager/dispatcher.d/99-origin-dns.sh", "755", lab.OldHook)
	put("/etc/NetworkManager/conf.d/99-origin.conf", "644", "[main]\ndns=none\n")
	put("/etc/origin/node/node-config.yaml", "600", lab.OldNodeConfig)
	g.Run("systemctl daemon-reload; systemctl enable --quiet --now dnsmasq; systemctl restart NetworkManager; nmcli connection up eth0")
	g.Await("dnsmasq to have resolv.conf", "grep -q '^# nameserver updated by .*99-origin-dns.sh' /etc/resolv.conf && grep -qx 'nameserver "+nodeIP+"' /etc/resolv.conf")
	g.checkAnswers()
	if got := g.domainOf(strings.TrimSpace(g.Run("systemctl show -p MainPID --value dnsmasq"))); got != "dnsmasq_t" && strictest() != "" {
		t.Errorf("dnsmasq runs as %s", got)
	}
	before := g.resolvConf()
	t.Log(g.Run("node-dns migrate --apply"))
	g.awaitPointed()
	g.checkAnswers()
	g.checkResolves()
	g.checkDomains()
	g.checkPolicyLabels()
	if label := g.Run("stat -c %C /var/lib/node-dns/migration.json"); confined && !strings.Contains(label, ":node_dns_var_lib_t:") {
		t.Errorf("the file of migrate for --undo has the label %s", label)
	}
	g.Run("nmcli device reapply eth0")
	g.checkAnswers()
	t.Log(g.Run("node-dns migrate --undo"))
	if got := g.resolvConf(); got != before {
		t.Errorf("after --undo resolv.conf is\n%s\nwant\n%s", got, before)
	}
	g.checkAnswers()
	g.checkResolves()
	g.checkDenials()
}
