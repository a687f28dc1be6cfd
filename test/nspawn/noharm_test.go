package nspawn

import (
	"strings"
	"testing"
)

// static sets eth0's address and route without NetworkManager, which leaves that interface alone.
const static = `[Unit]
After=sys-subsystem-net-devices-eth0.device
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=ip link set eth0 up
ExecStart=ip addr add ` + nodeIP + `/24 dev eth0
ExecStart=ip route add default via ` + router + `
[Install]
WantedBy=multi-user.target
`

// TestUnmanagedInterface: NetworkManager runs but does not manage the interface of the default
// route (NM_CONTROLLED=no, unmanaged-devices). A stop, a crash loop and a shutdown left an empty
// resolv.conf and no copy of the admin's file, whose search list was lost.
func TestUnmanagedInterface(t *testing.T) {
	const (
		program = "/usr/sbin/node-dns"
		admins  = "# the admin's\nsearch admin.example\nnameserver " + ns1 + "\noptions timeout:2\n"
	)
	later := strings.Replace(admins, "admin.example", "later.example", 1)
	n := newNode(t)
	n.WriteFile("/etc/NetworkManager/conf.d/pods.conf", "[keyfile]\nunmanaged-devices=interface-name:pods0;interface-name:eth0\n", 0o644)
	n.WriteFile("/etc/systemd/system/static.service", static, 0o644)
	n.WriteFile(resolvConf, admins, 0o644)
	n.Enable("static.service", "node-dns.service")
	n.boot()
	serving := func(search string) {
		t.Helper()
		n.awaitServing()
		n.awaitApplied()
		if got := n.ReadFile(resolvConf); !strings.Contains(got, "\nsearch "+search+"\n") || !strings.Contains(got, "options timeout:2\n") {
			t.Errorf("resolv.conf is\n%s", got)
		}
	}
	given := func(when, want string) {
		t.Helper()
		if got := n.ReadFile(resolvConf); got != want {
			t.Errorf("%s resolv.conf is\n%s", when, got)
		}
		if out, err := n.Try("ls", "/var/lib/node-dns/resolv.conf.orig"); err == nil {
			t.Errorf("%s %s still exists", when, out)
		}
		if got := n.libc(); got != "192.0.2.1" {
			t.Errorf("%s libc resolves www.up.example to %q", when, got)
		}
	}
	serving("admin.example")

	n.Run("systemctl", "stop", "node-dns.service")
	given("after a stop", admins)
	if log := n.Journal("--identifier=origin-dns-dispatcher"); strings.Contains(log, "node-dns is running") {
		t.Errorf("the log of a stop warns that node-dns runs:\n%s", log)
	}
	n.Run("systemctl", "start", "node-dns.service")
	serving("admin.example")

	n.Run("mv", program, program+".good")
	n.Run("systemctl", "kill", "--signal=KILL", "node-dns.service")
	n.Await("the admin's resolv.conf, in a crash loop", func() bool { return n.ReadFile(resolvConf) == admins })
	n.Await("the run to end", func() bool { _, err := n.Try("ls", "/var/lib/node-dns/resolv.conf.orig"); return err != nil })
	given("in a crash loop", admins)
	n.Run("mv", program+".good", program)
	serving("admin.example")

	n.WriteFile(resolvConf, later, 0o644)
	serving("later.example")
	n.PowerOff()
	if got := n.ReadFile(resolvConf); got != later {
		t.Errorf("after a shutdown resolv.conf is\n%s", got)
	}
	n.boot()
	serving("later.example")
	n.Run("systemctl", "stop", "node-dns.service")
	given("after a boot and a stop", later)
}
