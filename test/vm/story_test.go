package vm

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/node-dns/node-dns/internal/admin/doctor"
	"github.com/node-dns/node-dns/internal/test/rpmbuild"
)

// TestStoryOfPolicies runs the life of a node under each policy of SELINUX_POLICY, with and without
// the module. It takes longest, so it begins before TestStory.
func TestStoryOfPolicies(t *testing.T) {
	of := policies()
	delete(of, debian)
	if len(of) == 0 {
		t.Skip("SELINUX_POLICY names no policy")
	}
	for name, policy := range of {
		stories(t, name, policy)
	}
}

// TestStory is the same under Debian's policy.
func TestStory(t *testing.T) {
	if _, ok := policies()[debian]; !ok {
		t.Skip("this suite is only for RHEL 10's policy")
	}
	stories(t, debian, "")
}

func stories(t *testing.T, name, policy string) {
	t.Run(name+"/confined", func(t *testing.T) { story(t, policy, true) })
	if !testing.Short() {
		t.Run(name+"/alone", func(t *testing.T) { story(t, policy, false) })
	}
}

// step is an event on a serving node, which must continue to serve afterwards.
type step struct {
	name   string
	isSlow bool // with -short, only under the strictest policy
	do     func(g *guest)
}

var steps = []step{
	{name: "reapply", do: (*guest).reapply},
	{name: "renewal", do: (*guest).renew},
	{name: "VPN", isSlow: true, do: (*guest).vpn},
	{name: "dns-rc", do: func(g *guest) { g.Run("nmcli general reload dns-rc") }},
	{name: "D-Bus", do: (*guest).setDomainServers},
	{name: "kubeconfig", do: (*guest).handOver},
	{name: "interception", do: (*guest).interception},
	{name: "reload", do: func(g *guest) { g.Run("systemctl reload node-dns") }},
	{name: "restart", do: func(g *guest) { g.Run("systemctl restart node-dns") }},
	{name: "SIGKILL", do: func(g *guest) { g.kill(1) }},
	{name: "crash loop", isSlow: true, do: func(g *guest) { g.kill(6) }},
	{name: "watchdog", isSlow: true, do: (*guest).hang},
	{name: "socket unit", isSlow: true, do: (*guest).socketUnit},
	{name: "upgrade", isSlow: true, do: (*guest).upgrade},
}

func story(t *testing.T, policy string, confined bool) {
	g := newNode(t, policy, confined)
	if got := g.resolvConf(); got != original {
		t.Errorf("resolv.conf after the installation:\n%s", got)
	}
	g.Run("systemctl enable --quiet --now node-dns")
	g.awaitPointed()
	g.checkAnswers()
	g.checkResolves()
	g.checkDomains()
	g.Await("the metrics to be served", scrape+" | grep -qx 'nodedns_ready 1'")
	for _, step := range steps {
		if step.isSlow && testing.Short() && policy != strictest() {
			continue
		}
		t.Log(step.name)
		step.do(g)
		g.awaitPointed()
		g.checkAnswers()
		g.checkDoctor(step.name)
	}
	g.checkLabels()
	g.Run("systemctl stop node-dns")
	g.awaitOriginal()
	g.checkResolves()
	failed := g.failures()
	if len(failed) != 1 || failed[0].Check != "daemon" || !strings.Contains(failed[0].What, "stopped") {
		t.Fatalf("with node-dns stopped, doctor reports %+v", failed)
	}
	g.Run(failed[0].Fix)
	g.awaitPointed()
	g.PowerOff()
	if got := g.ReadDisk("/etc/resolv.conf"); got != original {
		t.Errorf("resolv.conf on the disk of the powered-off machine:\n%s", got)
	}
	g.Boot()
	g.awaitPointed()
	g.checkAnswers()
	g.checkResolves()
	g.checkDoctor("the boot")
	g.Run("rpm --erase node-dns")
	g.awaitOriginal()
	g.checkResolves()
	if out := g.Run("systemctl list-units --all --no-legend 'node-dns*'"); out != "" {
		t.Errorf("units still exist:\n%s", out)
	}
	g.checkDenials()
}

const scrape = `{ exec 3<>/dev/tcp/127.0.0.1/9453; printf 'GET /metrics HTTP/1.0\r\n\r\n' >&3; cat <&3; }`

// domainOf returns a process's SELinux type.
func (g *guest) domainOf(pid string) string {
	g.t.Helper()
	context := strings.Trim(g.Run("cat /proc/"+pid+"/attr/current"), "\x00\n")
	fields := strings.Split(context, ":")
	if len(fields) < 3 {
		g.t.Fatalf("process %s has the context %q", pid, context)
	}
	return fields[2]
}

func (g *guest) mainPID() string {
	g.t.Helper()
	return strings.TrimSpace(g.Run("systemctl show -p MainPID --value node-dns"))
}

// checkDomains checks that the daemon and the hook started by systemd are confined if the module is
// loaded. Otherwise they run in the policy's domain for unknown services. Root's own commands are
// never confined.
func (g *guest) checkDomains() {
	g.t.Helper()
	daemon, hook := "node_dns_t", "node_dns_hook_t"
	switch {
	case g.confined:
	case !g.isRHEL:
		daemon, hook = "initrc_t", "initrc_t"
	default:
		daemon, hook = "unconfined_service_t", "unconfined_service_t"
	}
	if got := g.domainOf(g.mainPID()); got != daemon {
		g.t.Errorf("the daemon runs as %s, want %s", got, daemon)
	}
	g.Run("systemctl start node-dns-apply") // NetworkManager's event may have run the hook before the daemon requested it
	want := []string{"the daemon runs as " + daemon, hook + " (node-dns-apply.service)"}
	g.l.Await(fmt.Sprintf("doctor to say %q", want), func() bool { // a slow guest may not answer doctor in time
		return slices.ContainsFunc(g.findings("selinux"), func(f doctor.Finding) bool {
			return f.Level == doctor.OK && strings.Contains(f.What, want[0]) && strings.Contains(f.What, want[1])
		})
	})
	// An administrator's unit that runs the same program stays in its own domain.
	g.Run("printf '[Service]\\nType=oneshot\\nExecStart=/usr/sbin/node-dns wait --for=ready --timeout=60s\\n' >/etc/systemd/system/waits.service && " +
		"systemctl daemon-reload && systemctl start waits")
}

// labels are the types of all our files if the module is loaded.
const labels = `/etc/node-dns node_dns_conf_t
/etc/node-dns/node-dns.yaml node_dns_conf_t
/etc/resolv.conf net_conf_t
/run/node-dns node_dns_runtime_t
/run/node-dns/control.sock node_dns_runtime_t
/run/node-dns/ready node_dns_runtime_t
/run/node-dns/way-back node_dns_runtime_t
/run/origin-dns-dispatcher.lock node_dns_runtime_t
/usr/libexec/node-dns/node-dns-intercept node_dns_intercept_exec_t
/usr/libexec/node-dns/origin-dns-dispatcher node_dns_hook_exec_t
/usr/sbin/node-dns bin_t
/var/cache/node-dns node_dns_cache_t
/var/lib/node-dns node_dns_var_lib_t
/var/lib/node-dns/resolv.conf.orig node_dns_var_lib_t
/var/lib/node-dns/upstreams.json node_dns_var_lib_t
`

// checkPolicyLabels checks that each file has the label that restorecon would set.
func (g *guest) checkPolicyLabels() {
	g.t.Helper()
	if out := g.Run("restorecon -nvR /etc/node-dns /etc/resolv.conf /run/node-dns /run/origin-dns-dispatcher* /usr/libexec/node-dns /var/lib/node-dns /var/cache/node-dns 2>&1 | " +
		"grep -v -e ': *Old compiled fcontext format, skipping' -e '^Warning no default label for /run/' || true"); out != "" { // RHEL 10's policy with Debian's libselinux; Debian's policy has none for /run
		g.t.Errorf("files have other labels than the policy's:\n%s", out)
	}
}

// checkLabels checks that each file has its expected label, and that restorecon would set the same.
func (g *guest) checkLabels() {
	g.t.Helper()
	g.checkPolicyLabels()
	if !g.confined {
		return
	}
	for line := range strings.Lines(labels) {
		path, want, _ := strings.Cut(strings.TrimSpace(line), " ")
		out := g.Run("stat -c %C " + path)
		if fields := strings.Split(strings.TrimSpace(out), ":"); len(fields) < 3 || fields[2] != want {
			g.t.Errorf("%s has the label %s, want %s", path, strings.TrimSpace(out), want)
		}
	}
}

// checkDoctor checks that doctor reports no failure.
func (g *guest) checkDoctor(after string) {
	g.t.Helper()
	var out string
	for range 20 { // pending changes may take a moment in a slow guest
		if out, _ = g.Try("node-dns doctor"); !strings.Contains(out, "[FAIL]") {
			return
		}
		g.Run("sleep 2")
	}
	g.t.Errorf("after %s:\n%s", after, out)
}

// reapply makes NetworkManager run the hook. With RHEL's policies it runs in the domain of unknown
// hooks.
func (g *guest) reapply() {
	g.t.Helper()
	g.Run("nmcli device reapply eth0")
	if g.isRHEL {
		// On a busy machine a hook may reach its time limit and then logs nothing.
		g.Await("the hook to run in its domain", "nmcli device reapply eth0; sleep 5; journalctl -q -b -o json _TRANSPORT=journal SYSLOG_IDENTIFIER=origin-dns-dispatcher | grep -q ':NetworkManager_dispatcher_custom_t:'")
	}
}

// renew makes DHCP offer another nameserver, which the daemon then uses.
func (g *guest) renew() {
	g.t.Helper()
	g.dhcp.SetNameservers(ns2)
	g.Await("the daemon to ask "+ns2, "node-dns servers | grep -q "+ns2)
	g.dhcp.SetNameservers(ns1)
	g.Await("the daemon to ask "+ns1, "node-dns servers | grep -q "+ns1)
}

// vpn brings a connection with its own domain up and down.
func (g *guest) vpn() {
	g.t.Helper()
	g.Run("nmcli connection add type dummy ifname vpn0 con-name vpn ipv4.method manual ipv4.addresses 10.99.0.1/24 " +
		"ipv4.dns " + ns2 + " ipv4.dns-search '~corp.test' ipv4.never-default yes autoconnect no ipv6.method disabled")
	g.Run("nmcli connection up vpn")
	g.Await("the VPN's domain to be a route", "node-dns servers | grep corp.test | grep -q "+ns2)
	g.Run("nmcli connection down vpn && nmcli connection delete vpn")
	g.Await("the VPN's route to go", "! node-dns servers | grep -q corp.test")
}

// setDomainServers checks that the D-Bus call takes effect. Debian's policy lets a daemon without
// its own domain (initrc_t) receive a call from an admin's program but denies the reply, so without
// the module busctl times out there.
func (g *guest) setDomainServers() {
	g.t.Helper()
	out, err := g.Try("busctl --timeout=20 call uk.org.thekelleys.dnsmasq /uk/org/thekelleys/dnsmasq uk.org.thekelleys.dnsmasq SetDomainServers as 1 /dbus.test/" + ns2)
	const denied = `journalctl -q -b -o cat | grep -q 'denied  { send_msg } for msgtype=method_return.*:initrc_t:.*:unconfined_t:'`
	if _, hasDenial := g.Try(denied); err != nil && (g.confined || hasDenial != nil) {
		g.t.Fatalf("%s\n%s", out, g.Run("journalctl -q -o cat | grep send_msg | tail -n 5"))
	}
	g.Await("the domain that was set over D-Bus", "node-dns servers | grep -q dbus.test")
}

// handOver checks that a kubeconfig for root only reaches the daemon through the hook.
func (g *guest) handOver() {
	g.t.Helper()
	const kubeconfig = `apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://10.78.0.1:6443", insecure-skip-tls-verify: true}}]
users: [{name: u, user: {token: secret}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
`
	g.Run("umask 077; cat >/etc/node-dns/kubeconfig.new <<'END'\n" + kubeconfig + "END\nmv /etc/node-dns/kubeconfig.new /etc/node-dns/kubeconfig")
	g.Await("the kubeconfig to be handed over", "[ \"$(stat -c %a%U /var/lib/node-dns/kubeconfig)\" = 400node-dns ]")
	if label := g.Run("stat -c %C /var/lib/node-dns/kubeconfig"); g.confined && !strings.Contains(label, ":node_dns_var_lib_t:") {
		g.t.Errorf("the handed-over credentials have the label %s", label)
	}
	g.Run("rm /etc/node-dns/kubeconfig && systemctl reload node-dns")
	g.Await("the credentials to be taken back", "[ ! -e /var/lib/node-dns/kubeconfig ]")
}

// socketUnit lets systemd hold port 53 and start the daemon at the first query. The label of such a
// socket differs from that of the daemon's own sockets.
func (g *guest) socketUnit() {
	g.t.Helper()
	const unit = "node-dns@" + nodeIP + ".socket"
	g.Run("systemctl stop node-dns && systemctl start " + unit)
	g.l.Await("an answer of a daemon started by the query", func() bool {
		out, err := g.lan.Try("dig", "+short", "+tries=1", "+timeout=5", "@"+nodeIP, "www.up.example")
		return err == nil && strings.TrimSpace(out) == "192.0.2.1"
	})
	g.awaitPointed()
	g.Run("systemctl restart node-dns")
	g.awaitPointed()
	g.checkAnswers()
	g.Run("systemctl stop " + unit + " node-dns && systemctl start node-dns")
}

// upgrade installs the next release over this one.
func (g *guest) upgrade() {
	g.t.Helper()
	next := rpmbuild.Build(g.t, 2, macros()).Main
	g.Push(router, "/srv/next", next)
	before := g.mainPID()
	g.Run("rpm --upgrade /srv/next/" + filepath.Base(next))
	g.relabel()
	if suite() == "bullseye" {
		// Its policy does not let root start a unit whose file has the label lib_t, which it had
		// when the package's scriptlet restarted the unit.
		g.Run("systemctl daemon-reload && systemctl try-restart node-dns")
	}
	g.Await("the new daemon", "pid=$(systemctl show -p MainPID --value node-dns); [ $pid != 0 ] && [ $pid != "+before+" ]")
}

// kill checks that systemd restarts the daemon after each kill.
func (g *guest) kill(times int) {
	g.t.Helper()
	for range times {
		before := g.mainPID()
		g.Run("kill -KILL " + before)
		g.Await("the daemon to be started again",
			fmt.Sprintf("pid=$(systemctl show -p MainPID --value node-dns); [ $pid != 0 ] && [ $pid != %s ]", before))
	}
}

// hang checks that the watchdog ends a hung daemon.
func (g *guest) hang() {
	g.t.Helper()
	before := g.mainPID()
	g.Run("kill -STOP " + before)
	g.Await("the watchdog", fmt.Sprintf("pid=$(systemctl show -p MainPID --value node-dns); [ $pid != 0 ] && [ $pid != %s ]", before))
}
