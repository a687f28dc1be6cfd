package nspawn

import (
	"strings"
	"testing"
)

// TestMigrate: a node of OpenShift 3 becomes node-dns's under load, and back, and no query is lost; /etc is as it was.
func TestMigrate(t *testing.T) {
	o := newOldNode(t, dnsmasqWith{base: openshiftBase, hook: true})
	before := o.tree()
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
