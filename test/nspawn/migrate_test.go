package nspawn

import (
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dnstest"
)

// TestMigrate: a node of OpenShift 3 becomes node-dns's under load, and back, and no query is lost; /etc is as it was.
func TestMigrate(t *testing.T) {
	o := newOldNode(t, dnsmasqWith{base: openshiftBase, hook: true})
	before := o.tree()
	if again := o.Run("node-dns", "migrate", "--undo"); !strings.Contains(again, "nothing to undo") {
		t.Errorf("an --undo of nothing:\n%s", again)
	}
	if out, err := o.Try("setpriv", "--reuid=65534", "--clear-groups", "node-dns", "migrate"); err == nil || !strings.Contains(out, "as root") || strings.Contains(out, "stop it first") {
		t.Errorf("of a user's: %v\n%s", err, out)
	}
	screen := o.Run("node-dns", "migrate")
	for _, want := range []string{oldHookPath, oldSnippetPath, "hand port 53 of " + nodeIP + " over", "asks " + loadSite} {
		if !strings.Contains(screen, want) {
			t.Errorf("the dry run does not say %q:\n%s", want, screen)
		}
	}
	o.checkEtc(before)

	o.during(200, func() { t.Log(o.Run("node-dns", "migrate", "--apply")) })
	o.checkMigrated()
	if again := o.Run("node-dns", "migrate", "--apply"); !strings.Contains(again, "This node was migrated") {
		t.Errorf("a second --apply:\n%s", again)
	}
	if shown := o.Run("node-dns", "migrate", "-o", "json"); !strings.Contains(shown, `"phase": "applied"`) || strings.Contains(shown, `"saved"`) {
		t.Errorf("as JSON:\n%s", shown)
	}
	o.Run("nmcli", "connection", "up", "eth0")
	o.awaitQuietEvents()
	o.checkMigrated()

	o.during(200, func() { t.Log(o.Run("node-dns", "migrate", "--undo")) })
	o.checkEtc(before)
	o.checkOld()
	if again := o.Run("node-dns", "migrate", "--undo"); !strings.Contains(again, "nothing to undo") {
		t.Errorf("a second --undo:\n%s", again)
	}
	o.Run("nmcli", "connection", "up", "eth0")
	o.awaitQuietEvents()
	o.checkEtc(before)
	o.checkOld()
}

// plainBase is an admin's: bound to every address, as dnsmasq is without a word about it.
const plainBase = `no-resolv
server=` + loadSite + `
server=/cluster.local/` + clusterService + `
server=/slow.example/` + loadSlow + `
`

// TestMigrateDnsmasq: the same of an admin's dnsmasq, which is bound to every address, and asked at loopback by the node
// itself: a link leads to the file that says so. On the way back that was put there before dnsmasq was.
func TestMigrateDnsmasq(t *testing.T) {
	o := newOldNode(t, dnsmasqWith{base: plainBase, text: "# mine\nsearch example.com\nnameserver 127.0.0.1\noptions timeout:3\n"})
	o.Run("mv", resolvConf, "/etc/resolv.mine")
	o.Run("ln", "-s", "resolv.mine", resolvConf)
	before := o.tree()
	o.during(200, func() { t.Log(o.Run("node-dns", "migrate", "--apply")) })
	o.checkMigrated()
	o.reboot()
	o.checkMigrated()
	o.during(200, func() { t.Log(o.Run("node-dns", "migrate", "--undo")) })
	o.checkEtc(before)
	o.checkOld()
}

// TestMigrateFails: where node-dns would not do, the node is left as it was, or gets back there by itself; without a query lost
// where that shows before port 53 has changed hands.
func TestMigrateFails(t *testing.T) {
	o := newOldNode(t, dnsmasqWith{base: openshiftBase, hook: true})
	before := o.tree()
	fails := func(config, says string) {
		t.Helper()
		o.WriteFile("/etc/node-dns/node-dns.yaml", config, 0o644)
		if out, err := o.Try("node-dns", "migrate", "--apply"); err == nil || !strings.Contains(out, says) {
			t.Errorf("%s: %v\n%s", says, err, out)
		}
		o.Run("rm", "-r", "/etc/node-dns")
		o.checkEtc(before)
		o.checkOld()
	}
	o.during(200, func() {
		fails("upstreams: [10.77.0.200\n", "the configuration has faults")
		fails("upstreams: [10.77.0.200]\n", "no upstream nameserver answers")
		o.Run("cp", resolvConf, "/run/resolv.conf")
		o.Run("sh", "-c", "echo nameserver "+loadSite+" >"+resolvConf+"; chattr +i "+resolvConf)
		if out, err := o.Try("node-dns", "migrate", "--apply"); err == nil || !strings.Contains(out, "chattr -i") {
			t.Errorf("chattr +i: %v\n%s", err, out)
		}
		o.Run("sh", "-c", "chattr -i "+resolvConf+"; cp --preserve=all /run/resolv.conf "+resolvConf)
		o.checkEtc(before)
	})

	// A domain that dnsmasq was told of where node-dns does not look.
	o.WriteFile(unitFiles+"dnsmasq.service", strings.Replace(dnsmasqService, "-k", "-k --server=/example.com/"+clusterService, 1), 0o644)
	o.Run("systemctl", "daemon-reload")
	o.Run("systemctl", "restart", "dnsmasq.service")
	o.site.SetFaultsFor("example.com", dnstest.Faults{Rcode: dns.RcodeServerFailure})
	fails("logLevel: info\n", "answers SERVFAIL to example.com. SOA, which had")
}

// checkMigrated: node-dns answers, and nothing of the old is about to come back.
func (o *oldNode) checkMigrated() {
	o.t.Helper()
	o.Await("node-dns", func() bool { return o.answeredBy() == "node-dns" })
	o.awaitPointedAnyhow()
	o.Run("node-dns", "wait", "--for=ready", "--timeout=10s")
	o.Run("systemctl", "is-enabled", "--quiet", "node-dns.service")
	for unit, want := range map[string]string{"dnsmasq.service": "inactive", "node-dns.service": "active", "node-dns-apply.path": "active"} {
		if got := o.property(unit, "ActiveState"); got != want {
			o.t.Errorf("%s is %s, expected %s", unit, got, want)
		}
	}
	for _, path := range []string{oldHookPath, oldSnippetPath, "/run/node-dns/terms"} {
		if o.exists(path) {
			o.t.Errorf("%s is there", path)
		}
	}
	o.checkNoHold()
}

// checkOld: dnsmasq answers as before, and nothing of node-dns's is in the way.
func (o *oldNode) checkOld() {
	o.t.Helper()
	o.Await("dnsmasq", func() bool { return o.answeredBy() == "dnsmasq" })
	for unit, want := range map[string]string{"dnsmasq.service": "active", "node-dns.service": "inactive", "node-dns-apply.path": "inactive"} {
		if got := o.property(unit, "ActiveState"); got != want {
			o.t.Errorf("%s is %s, expected %s", unit, got, want)
		}
	}
	for _, path := range []string{"/var/lib/node-dns/migration.json", "/run/node-dns", "/run/systemd/system/node-dns-apply.path", snippet} {
		if o.exists(path) {
			o.t.Errorf("%s is there", path)
		}
	}
	o.checkNoHold()
}

func (o *oldNode) checkNoHold() {
	o.t.Helper()
	if rules := o.Run("nft", "list", "ruleset"); strings.Contains(rules, "node_dns") {
		o.t.Errorf("connections are still held:\n%s", rules)
	}
}

func (n *node) awaitPointedAnyhow() {
	n.t.Helper()
	n.Await("resolv.conf to name the node alone", func() bool {
		text := "\n" + n.ReadFile(resolvConf)
		return strings.Contains(text, "\nnameserver "+nodeIP+"\n") && strings.Count(text, "\nnameserver ") == 1
	})
}
