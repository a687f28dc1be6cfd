package nspawn

import (
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/admin/doctor"
	"github.com/node-dns/node-dns/internal/test/dnstest"
	"github.com/node-dns/node-dns/internal/test/lab"
)

// openshiftRules are the rules of RHEL's iptables-services with the chain in which
// openshift-ansible opens ports (roles/lib_os_firewall).
const openshiftRules = `*filter
:INPUT ACCEPT
:OS_FIREWALL_ALLOW -
-A INPUT -m state --state RELATED,ESTABLISHED -j ACCEPT
-A INPUT -p icmp -j ACCEPT
-A INPUT -i lo -j ACCEPT
-A INPUT -j OS_FIREWALL_ALLOW
-A INPUT -j REJECT --reject-with icmp-host-prohibited
-A OS_FIREWALL_ALLOW -p tcp -m state --state NEW -m tcp --dport 53 -j ACCEPT
-A OS_FIREWALL_ALLOW -p udp -m state --state NEW -m udp --dport 53 -j ACCEPT
COMMIT
`

// TestMigrate: an OpenShift 3 node migrates to node-dns under load, and back, without a lost query,
// and /etc is as before. The ports that OpenShift's installer opened stay open.
func TestMigrate(t *testing.T) {
	o := newOldNode(t, dnsmasqWith{base: openshiftBase, hook: true})
	o.Install("iptables")
	o.WriteFile("/run/rules", openshiftRules, 0o600)
	o.Run("iptables-restore", "/run/rules")
	rules := o.Run("iptables", "-S")
	checkRules := func() {
		t.Helper()
		if got := o.Run("iptables", "-S"); got != rules {
			t.Errorf("want the rules\n%s\ngot\n%s", rules, got)
		}
	}
	before := o.tree()
	if again := o.Run("node-dns", "migrate", "--undo"); !strings.Contains(again, "nothing to undo") {
		t.Errorf("--undo without a migration:\n%s", again)
	}
	if out, err := o.Try("setpriv", "--reuid=65534", "--clear-groups", "node-dns", "migrate"); err == nil || !strings.Contains(out, "as root") || strings.Contains(out, "stop it first") {
		t.Errorf("as another user: got %v\n%s", err, out)
	}
	screen := o.Run("node-dns", "migrate")
	for _, want := range []string{oldHookPath, oldSnippetPath, "move port 53 of " + nodeIP + ", " + podGateway, " from dnsmasq.service to node-dns", "ask " + loadSite} {
		if !strings.Contains(screen, want) {
			t.Errorf("the dry run's output lacks %q:\n%s", want, screen)
		}
	}
	if strings.Contains(screen, "drop DNS") || strings.Contains(screen, "drops DNS") {
		t.Errorf("the dry run reports a packet filter:\n%s", screen)
	}
	o.checkEtc(before)

	// With this umask, migrate once failed: the daemon could not enter the new /var/lib/node-dns.
	o.during(200, func() { t.Log(o.Run("sh", "-c", "umask 077; node-dns migrate --apply")) })
	o.checkMigrated()
	checkRules()
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
	checkRules()
	if again := o.Run("node-dns", "migrate", "--undo"); !strings.Contains(again, "nothing to undo") {
		t.Errorf("a second --undo:\n%s", again)
	}
	o.Run("nmcli", "connection", "up", "eth0")
	o.awaitQuietEvents()
	o.checkEtc(before)
	o.checkOld()
}

// plainBase is an admin's configuration. It is bound to every address, which is dnsmasq's default.
const plainBase = `no-resolv
server=` + loadSite + `
server=/cluster.local/` + clusterService + `
server=/slow.example/` + loadSlow + `
`

// TestMigrateDnsmasq does the same with an admin's dnsmasq, which is bound to every address. The
// node itself queries it at loopback, and resolv.conf is a link to the file that says so. On the
// way back, that link was restored before dnsmasq ran. A container in the host's network with a
// copy of the file gets answers at loopback, and another one at the address of another link. A VPN
// that came after the migration kept dnsmasq from starting on the way back, because node-dns also
// listened at its address.
func TestMigrateDnsmasq(t *testing.T) {
	o := newOldNode(t, dnsmasqWith{base: plainBase, text: "# mine\nsearch example.com\nnameserver 127.0.0.1\noptions timeout:3\n"})
	o.Run("mv", resolvConf, "/etc/resolv.mine")
	o.Run("ln", "-s", "resolv.mine", resolvConf)
	before := o.tree()
	// Nothing reads the output, as when the connection of ssh is lost: SIGPIPE once ended migrate
	// between two steps.
	during := func(flag string) {
		t.Helper()
		loopback, other := o.asking("127.0.0.1", "web.shop.svc.cluster.local", dnstest.MixedService), o.asking(podGateway, "web.shop.svc.cluster.local", dnstest.MixedService)
		o.during(200, func() { t.Log(o.Run("sh", "-c", "node-dns migrate "+flag+" | true")) })
		loopback()
		other()
	}
	during("--apply")
	o.checkMigrated()
	if got := o.ReadFile("/etc/node-dns/node-dns.yaml"); !strings.HasSuffix(got, "\nlisten: [all, 127.0.0.1]\n") {
		t.Errorf("node-dns.yaml:\n%s", got)
	}
	o.reboot()
	o.checkMigrated()
	o.Run("ip", "link", "add", "vpn0", "type", "bridge")
	o.Run("ip", "address", "add", "10.7.0.1/24", "dev", "vpn0")
	o.Run("ip", "link", "set", "vpn0", "up")
	o.Await("node-dns at the VPN's address", func() bool { return strings.Contains(o.status(), "10.7.0.1:53") })
	during("--undo")
	o.checkEtc(before)
	o.checkOld()
}

// asking makes the machine query an address for a name repeatedly. The returned function ends that
// and reports failures.
func (o *oldNode) asking(addr, name, want string) (stop func()) {
	o.t.Helper()
	ask := "dig +short +tries=2 +timeout=1 @" + addr + " " + name
	o.Await(name+" at "+addr, func() bool {
		out, _ := o.Try("sh", "-c", ask)
		return strings.TrimSpace(out) == want
	})
	unit := "asks-" + addr
	o.WriteFile("/run/"+unit, "while [ ! -e /run/"+unit+".enough ]; do got=$("+ask+"); [ \"$got\" = "+want+" ] && echo right || echo \"WRONG $got\"; sleep 0.02; done >/run/"+unit+".answers\n", 0o644)
	o.Run("systemd-run", "--quiet", "--unit="+unit, "sh", "/run/"+unit)
	return func() {
		o.t.Helper()
		o.Run("touch", "/run/"+unit+".enough")
		o.Await(unit+" to end", func() bool { return o.property(unit+".service", "ActiveState") != "active" })
		answers := o.ReadFile("/run/" + unit + ".answers")
		o.Run("sh", "-c", "rm /run/"+unit+"*")
		if strings.Contains(answers, "WRONG") || !strings.Contains(answers, "right") {
			o.t.Errorf("of %d queries to %s, %d got a wrong answer or none:\n%s", strings.Count(answers, "\n"), addr, strings.Count(answers, "WRONG"), answers)
		}
	}
}

// TestMigrateFails: if node-dns would not work, the node stays as it was or is restored
// automatically. If this shows before port 53 changes hands, no query is lost.
func TestMigrateFails(t *testing.T) {
	o := newOldNode(t, dnsmasqWith{base: openshiftBase, hook: true})
	before := o.tree()
	fails := func(config, says string) {
		t.Helper()
		o.WriteFile("/etc/node-dns/node-dns.yaml", config, 0o644)
		if out, err := o.Try("node-dns", "migrate", "--apply"); err == nil || !strings.Contains(out, says) {
			t.Errorf("%s: got %v\n%s", says, err, out)
		}
		o.Run("rm", "-r", "/etc/node-dns")
		o.checkEtc(before)
		o.checkOld()
	}
	o.during(200, func() {
		fails("upstreams: [10.77.0.200\n", "the configuration has errors")
		fails("upstreams: [10.77.0.200]\n", "no upstream nameserver answers")
		fails("kubeconfig: /etc/none.kubeconfig\n", "/etc/none.kubeconfig does not exist")
		if o.exists("/var/lib/node-dns/migration.json") || o.property("node-dns.service", "ExecMainStartTimestamp") != "" {
			t.Error("a migration began in spite of a problem that the dry run can detect")
		}
		o.Run("cp", resolvConf, "/run/resolv.conf")
		o.Run("sh", "-c", "echo nameserver "+loadSite+" >"+resolvConf+"; chattr +i "+resolvConf)
		if out, err := o.Try("node-dns", "migrate", "--apply"); err == nil || !strings.Contains(out, "chattr -i") {
			t.Errorf("with chattr +i: got %v\n%s", err, out)
		}
		o.Run("sh", "-c", "chattr -i "+resolvConf+"; cp --preserve=all /run/resolv.conf "+resolvConf)
		o.checkEtc(before)
	})

	// dnsmasq gets a domain in a place where node-dns does not look.
	o.WriteFile(unitFiles+"dnsmasq.service", strings.Replace(lab.DnsmasqService, "-k", "-k --server=/example.com/"+clusterService, 1), 0o644)
	o.Run("systemctl", "daemon-reload")
	o.Run("systemctl", "restart", "dnsmasq.service")
	o.site.SetFaultsFor("example.com", dnstest.Faults{Rcode: dns.RcodeServerFailure})
	// systemd reports dnsmasq as started before it answers, and migrate compares only names that it
	// answered.
	o.Await("dnsmasq", func() bool { return o.answeredBy() == "dnsmasq" })
	fails("logLevel: info\n", "answers SERVFAIL to example.com. SOA; before the migration the answer was")
}

// TestMigrateBesideSkyDNS: the node process of OpenShift 3 keeps its own nameserver on 127.0.0.1.
// It loses no query there while port 53 of the node's address changes hands, and node-dns becomes
// ready next to it. Doctor once advised to disable that process, which is the kubelet.
func TestMigrateBesideSkyDNS(t *testing.T) {
	o := newOldNode(t, dnsmasqWith{base: openshiftBase, hook: true})
	const unit = "origin-node.service"
	o.WriteFile(unitFiles+unit, "[Service]\nExecStart=/usr/sbin/dnsmasq -k --conf-file=/dev/null --pid-file= --user=root --no-resolv --no-hosts "+
		"--bind-interfaces --listen-address=127.0.0.1 --address=/sky.test/192.0.2.99\n", 0o644)
	o.Run("systemctl", "daemon-reload")
	o.Run("systemctl", "start", unit)
	before := o.tree()
	stop := o.asking("127.0.0.1", "sky.test", "192.0.2.99")
	t.Log(o.Run("node-dns", "migrate", "--apply"))
	stop()
	o.checkMigrated()
	if got := o.property(unit, "ActiveState"); got != "active" {
		t.Errorf("%s: got %s", unit, got)
	}
	if level, said := o.doctor("port"); level != doctor.OK {
		t.Errorf("[%s] %s", level, said)
	}
	if out, _ := o.Try("node-dns", "doctor"); !strings.Contains(out, "127.0.0.1:53 is used by dnsmasq of "+unit) || strings.Contains(out, "disable --now "+unit) {
		t.Errorf("got doctor's output\n%s", out)
	}
	// As the package does when it is removed. That removed what the undo needs.
	o.Run("systemctl", "disable", "--quiet", "--now", "node-dns.service")
	o.Run("origin-dns-dispatcher", "restore", "--if-ours", "--purge")
	if o.exists("/var/lib/node-dns/resolv.conf.orig") || o.exists("/var/lib/node-dns/upstreams.json") {
		t.Errorf("left: %s", o.Run("ls", "/var/lib/node-dns"))
	}
	o.Run("node-dns", "migrate", "--undo")
	o.checkEtc(before)
	o.checkOld()
}

// checkMigrated: node-dns answers, and nothing of the old setup can come back.
func (o *oldNode) checkMigrated() {
	o.t.Helper()
	o.Await("node-dns", func() bool { return o.answeredBy() == "node-dns" })
	o.awaitPointedAnyhow()
	o.Run("node-dns", "wait", "--for=ready", "--timeout=10s")
	o.Run("systemctl", "is-enabled", "--quiet", "node-dns.service")
	for unit, want := range map[string]string{"dnsmasq.service": "inactive", "node-dns.service": "active", "node-dns-apply.path": "active"} {
		if got := o.property(unit, "ActiveState"); got != want {
			o.t.Errorf("%s: got %s, want %s", unit, got, want)
		}
	}
	for _, path := range []string{oldHookPath, oldSnippetPath, "/run/node-dns/terms"} {
		if o.exists(path) {
			o.t.Errorf("%s exists", path)
		}
	}
	o.checkNoHold()
}

// checkOld: dnsmasq answers as before, and nothing of node-dns interferes.
func (o *oldNode) checkOld() {
	o.t.Helper()
	o.Await("dnsmasq", func() bool { return o.answeredBy() == "dnsmasq" })
	for unit, want := range map[string]string{"dnsmasq.service": "active", "node-dns.service": "inactive", "node-dns-apply.path": "inactive"} {
		if got := o.property(unit, "ActiveState"); got != want {
			o.t.Errorf("%s: got %s, want %s", unit, got, want)
		}
	}
	for _, path := range []string{"/var/lib/node-dns/migration.json", "/run/node-dns", "/run/systemd/system/node-dns-apply.path", snippet} {
		if o.exists(path) {
			o.t.Errorf("%s exists", path)
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
