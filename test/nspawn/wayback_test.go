package nspawn

import (
	"fmt"
	"strings"
	"testing"
)

// dispatcher is the program that systemd runs before a start and after a stop.
const dispatcher = "/usr/libexec/node-dns/origin-dns-dispatcher"

// TestNoWayBack: if systemd cannot run the program that restores resolv.conf, resolv.conf stays as
// it is. On RHEL 9 SELinux prevented that (the program was in NetworkManager's hook directory),
// NetworkManager's next event pointed resolv.conf at the node, and a stop left it like that.
func TestNoWayBack(t *testing.T) {
	const dropIn = "/etc/systemd/system/node-dns.service.d/test.conf"
	for _, tt := range []struct {
		name  string
		spoil func(n *node)
	}{
		{"not executable", func(n *node) { n.Run("chmod", "644", dispatcher) }},
		{"missing", func(n *node) { n.Run("mv", dispatcher, dispatcher+".away") }},
		{"noexec", func(n *node) {
			n.Run("mount", "--bind", "/usr/libexec/node-dns", "/usr/libexec/node-dns")
			n.Run("mount", "-o", "remount,bind,noexec", "/usr/libexec/node-dns")
		}},
		{"drop-in without the restore", func(n *node) { n.WriteFile(dropIn, "[Service]\nExecStopPost=\n", 0o644) }},
		{"drop-in whose restore is missing", func(n *node) {
			n.WriteFile(dropIn, "[Service]\nExecStopPost=\nExecStopPost=-+/opt/missing/origin-dns-dispatcher stopped\n", 0o644)
		}},
		{"drop-in whose restore is another program's", func(n *node) {
			n.WriteFile(dropIn, "[Service]\nExecStopPost=\nExecStopPost=-+@/bin/true origin-dns-dispatcher stopped\n", 0o644)
		}},
		{"drop-in whose restore is not root", func(n *node) {
			n.WriteFile(dropIn, "[Service]\nExecStopPost=\nExecStopPost=-/usr/sbin/origin-dns-dispatcher stopped\n", 0o644)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := newLeasedNode(t)
			tt.spoil(n)
			n.Run("systemctl", "daemon-reload")
			n.Run("systemctl", "start", "node-dns.service")
			n.Await("pods to be answered", func() bool { return n.ask() == ns1 })
			// Do what an event of NetworkManager does, if a person or NetworkManager can still run
			// the program.
			if _, err := n.Try("test", "-x", dispatcher); err == nil {
				n.Run("sh", "-c", "env NM_DISPATCHER_ACTION=dhcp4-change "+hookFile+" eth0 dhcp4-change")
			}
			if got := n.ReadFile(resolvConf); got != original {
				t.Errorf("resolv.conf points at the node although nothing would restore it:\n%s", got)
			}
			const reason = "systemd did not run origin-dns-dispatcher"
			if status, _ := n.Try("node-dns", "status"); !strings.Contains(status, reason) {
				t.Errorf("the status gives no reason:\n%s", status)
			}
			if out, _ := n.Try("node-dns", "doctor"); !strings.Contains(out, reason) {
				t.Errorf("doctor gives no reason:\n%s", out)
			}
			if got := strings.Count(n.Journal("--unit=node-dns.service"), reason); got != 1 {
				t.Errorf("got the reason %d times in the journal, want once", got)
			}
			n.Run("systemctl", "stop", "node-dns.service")
			if got := n.libc(); got != "192.0.2.1" {
				t.Errorf("after a stop libc resolves www.up.example to %q, with\n%s", got, n.ReadFile(resolvConf))
			}
		})
	}
}

// TestWayBackLater: the command that writes the stamp may not get that far. A SIGKILL to the unit,
// or from the OOM killer, also hits that command. resolv.conf was then not pointed at the node
// until node-dns was restarted.
func TestWayBackLater(t *testing.T) {
	for _, row := range []struct{ name, text string }{
		{"killed", "[Service]\nExecStartPre=\nExecStartPre=-+/bin/sh -c 'kill -9 $$$$'\n"},
		{"drop-in without the capture", "[Service]\nExecStartPre=\n"},
	} {
		t.Run(row.name, func(t *testing.T) {
			n := newLeasedNode(t)
			n.WriteFile("/etc/systemd/system/node-dns.service.d/test.conf", row.text, 0o644)
			n.Run("systemctl", "daemon-reload")
			n.Run("systemctl", "start", "node-dns.service")
			n.awaitServing()
			n.Run("systemctl", "kill", "--signal=KILL", "node-dns.service") // the next start needs its own stamp
			n.Await("the next start", func() bool { return n.restarts() == 1 })
			n.awaitServing()
			n.Run("systemctl", "stop", "node-dns.service")
			n.awaitOriginal()
		})
	}
}

// TestKilledStarts kills node-dns at each moment of a start. A second SIGKILL once hit the
// program that writes the stamp, and resolv.conf kept the original permanently.
func TestKilledStarts(t *testing.T) {
	n := newServingNode(t)
	for delay := range 24 {
		n.Run("sh", "-c", fmt.Sprintf("systemctl kill --signal=KILL node-dns.service; sleep 0.%03d; systemctl kill --signal=KILL node-dns.service; sleep 0.5", 100+5*delay))
		n.awaitServing()
	}
}

// TestWayBackLost: if nothing would restore resolv.conf after a restart, it is restored while the
// program can still run.
func TestWayBackLost(t *testing.T) {
	n := newServingNode(t)
	n.WriteFile("/etc/systemd/system/node-dns.service.d/test.conf", "[Service]\nExecStopPost=\n", 0o644)
	n.Run("systemctl", "daemon-reload")
	n.Run("systemctl", "restart", "node-dns.service")
	n.awaitOriginal()
	n.Run("rm", "/etc/systemd/system/node-dns.service.d/test.conf")
	n.Run("systemctl", "daemon-reload")
	n.Run("systemctl", "restart", "node-dns.service")
	n.awaitServing()
}
