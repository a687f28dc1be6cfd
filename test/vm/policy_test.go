package vm

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/node-dns/node-dns/internal/test/rpmbuild"
)

// TestPolicyPackage installs and removes node-dns-selinux while the daemon serves. The daemon
// enters its domain and leaves it, and clients always get answers. The guest compiles the policy
// itself, which takes minutes.
func TestPolicyPackage(t *testing.T) {
	if testing.Short() {
		t.Skip("takes minutes")
	}
	g := newServingNode(t, strictest(), false)
	p := rpmbuild.Build(t, 1, macros())
	g.Push(router, "/srv/rpm", p.SELinux)
	before := g.domainOf(g.mainPID())
	// A label set by the administrator stays, whatever the current policy has for the directory.
	const own, chosen = "/etc/node-dns/own.hosts", "etc_runtime_t"
	g.Run("semanage fcontext -N -a -t " + chosen + " '/etc/node-dns/own\\.hosts' && touch " + own + " && restorecon " + own)
	keepsOwn := func(after string) {
		if got := g.Run("stat -c %C " + own); !strings.Contains(got, ":"+chosen+":") {
			t.Errorf("after %s the file labeled by the administrator has %s", after, got)
		}
	}
	keepsOwn("semanage")
	g.Run("rpm --install /srv/rpm/" + filepath.Base(p.SELinux))
	g.awaitPointed()
	g.checkAnswers()
	if got := g.domainOf(g.mainPID()); got != "node_dns_t" {
		t.Errorf("with node-dns-selinux installed the daemon runs as %s", got)
	}
	g.confined = true
	g.checkLabels()
	keepsOwn("the installation")
	g.Run("rpm --erase node-dns-selinux")
	g.awaitPointed()
	g.checkAnswers()
	if got := g.domainOf(g.mainPID()); got != before {
		t.Errorf("with node-dns-selinux removed the daemon runs as %s, want %s", got, before)
	}
	keepsOwn("the erasure")
	if out := g.Run("find /etc/node-dns /var/lib/node-dns /var/cache/node-dns /run/node-dns /usr/libexec/node-dns -context '*node_dns*' -o -context '*unlabeled*'"); out != "" {
		t.Errorf("files still have labels of the removed policy:\n%s", out)
	}
	g.Run("systemctl stop node-dns")
	g.awaitOriginal()
	g.checkResolves()
	g.checkDenials()
}

// TestPorts: listening on a port of another service needs the boolean, or a label for the port.
func TestPorts(t *testing.T) {
	if testing.Short() {
		t.Skip("only the full lane runs it")
	}
	g := newServingNode(t, strictest(), true)
	listen := func(port string) {
		g.Run("printf 'listen: [" + nodeIP + ":53, " + nodeIP + ":" + port + "]\\n' >/etc/node-dns/node-dns.yaml; systemctl reload node-dns")
	}
	asks := func(port string) bool {
		out, err := g.lan.Try("dig", "+short", "+tries=2", "+timeout=5", "-p", port, "@"+nodeIP, "www.up.example")
		return err == nil && strings.TrimSpace(out) == "192.0.2.1"
	}
	listen("10053") // not assigned to a service
	g.l.Await("an answer on port 10053", func() bool { return asks("10053") })
	listen("5353") // assigned to mDNS
	g.Await("a denial of port 5353", "journalctl -q -o cat _TRANSPORT=audit | grep 'denied.*name_bind.*src=5353'")
	if asks("5353") {
		t.Error("port 5353 is bound without the boolean")
	}
	g.checkAnswers()
	g.Run("setsebool node_dns_bind_any_port on && systemctl reload node-dns")
	g.l.Await("an answer on port 5353", func() bool { return asks("5353") })
}

// TestMislabelled: the program has the label of files in dispatcher.d, and RHEL's policy does not
// let systemd execute it. The node keeps its nameservers, doctor reports the reason and a fix, and
// the fix works.
func TestMislabelled(t *testing.T) {
	if strictest() == "" {
		t.Skip("Debian's policy lets systemd execute everything; SELINUX_POLICY names no other")
	}
	g := newNode(t, strictest(), false)
	g.Run("chcon -t NetworkManager_dispatcher_script_t /usr/libexec/node-dns/origin-dns-dispatcher")
	g.Run("systemctl enable --quiet --now node-dns")
	g.checkAnswers()
	// On a busy machine the hook may reach its time limit and then decides nothing.
	g.Await("NetworkManager's hook to have run", "nmcli device reapply eth0; sleep 5; journalctl -q -o cat -t origin-dns-dispatcher | grep -q 'event=.*held='")
	if got := g.resolvConf(); got != original {
		t.Errorf("resolv.conf names the node although nothing would restore it:\n%s", got)
	}
	out, err := g.Try("node-dns doctor")
	if err == nil || !strings.Contains(out, "restorecon") || !strings.Contains(out, "systemd did not run origin-dns-dispatcher") {
		t.Errorf("doctor does not name the cause and the fix: %v\n%s", err, out)
	}
	g.Run("systemctl stop node-dns")
	g.checkResolves()
	g.Run("restorecon -RFv /usr/libexec/node-dns && systemctl start node-dns")
	g.awaitPointed()
	g.checkDoctor("restorecon")
	g.Run("systemctl stop node-dns")
	g.awaitOriginal()
}
