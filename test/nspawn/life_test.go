package nspawn

import (
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestLife: an installation changes nothing; enable --now does; a stop restores every byte, without
// a warning; and the state survives a reboot.
func TestLife(t *testing.T) {
	n := newLeasedNode(t)
	n.Run("systemctl", "enable", "--now", "node-dns.service")
	n.awaitServing()
	n.reboot()
	n.awaitServing()
	n.Crash() // resolv.conf still points at the node
	n.boot()
	n.awaitServing()
	before := n.warnings()
	n.Run("systemctl", "stop", "node-dns.service")
	if got := n.ReadFile(resolvConf); got != original {
		t.Errorf("after the stop resolv.conf is\n%s", got)
	}
	// The hook restores the file while the daemon still answers. It warned that a running node-dns
	// would undo that.
	if after := n.warnings(); len(after) > len(before) {
		t.Errorf("the stop logs %q", after[len(before):])
	}
	if got := n.libc(); got != "192.0.2.1" {
		t.Errorf("after the stop libc resolves www.up.example to %q", got)
	}
	n.Run("systemctl", "start", "node-dns.service")
	n.awaitServing()
	n.PowerOff()
	if got := n.ReadFile(resolvConf); got != original {
		t.Errorf("after a shutdown resolv.conf is\n%s", got)
	}
}

// warnings returns the unit's messages that are warnings, or that contain one.
func (n *node) warnings() (messages []string) {
	n.t.Helper()
	n.Run("journalctl", "--sync")
	for _, e := range n.entries("-b", "-u", "node-dns.service") {
		if e.get("PRIORITY") <= "4" || e.get("NODE_DNS_WARNING") != "" {
			messages = append(messages, e.get("MESSAGE"))
		}
	}
	return messages
}

// TestRestart: a restart does not touch resolv.conf.
func TestRestart(t *testing.T) {
	n := newServingNode(t)
	before := n.stamp()
	for range 3 {
		n.Run("systemctl", "restart", "node-dns.service")
	}
	n.awaitServing()
	if after := n.stamp(); after != before {
		t.Errorf("resolv.conf changed at restarts: got %s, want %s", after, before)
	}
}

// stamp identifies one written version of resolv.conf.
func (n *node) stamp() string {
	n.t.Helper()
	return n.Run("stat", "--format=inode %i, changed %z", resolvConf)
}

// TestKill: systemd restarts the daemon at once, and resolv.conf stays.
func TestKill(t *testing.T) {
	n := newServingNode(t)
	before, pid := n.stamp(), n.mainPID()
	n.Run("systemctl", "kill", "--signal=KILL", "node-dns.service")
	n.Await("another process", func() bool { return n.mainPID() != pid && n.mainPID() != "0" })
	n.awaitServing()
	n.awaitApplied()
	// On a machine where the restart takes longer, the nameserver does not answer in time, and the
	// hook restores resolv.conf meanwhile.
	down := time.Duration(n.moment("node-dns.service", "ActiveEnter")-n.moment("node-dns.service", "ActiveExit")) * time.Microsecond
	if after := n.stamp(); after != before && down < 800*time.Millisecond { // hostdns.probeLimit
		t.Errorf("resolv.conf changed %v after SIGKILL: got %s, want %s", down, after, before)
	}
}

func (n *node) mainPID() string { return n.property("node-dns.service", "MainPID") }

// property returns a unit's property from systemctl.
func (n *node) property(unit, name string) string {
	n.t.Helper()
	return strings.TrimSpace(n.Run("systemctl", "show", "--value", "--property="+name, unit))
}

// restarts returns how often systemd has restarted node-dns automatically since the last manual
// start.
func (n *node) restarts() int {
	n.t.Helper()
	count, err := strconv.Atoi(n.property("node-dns.service", "NRestarts"))
	if err != nil {
		n.t.Fatal(err)
	}
	return count
}

// awaitApplied waits until no run of the privileged process is active or requested.
func (n *node) awaitApplied() {
	n.t.Helper()
	n.Await("the privileged half to have run", func() bool {
		return n.property("node-dns-apply.service", "ActiveState") == "inactive" && n.property("node-dns-apply.service", "Job") == "" &&
			n.ReadFile("/run/node-dns/apply") == ""
	})
}

// TestKillAgainAndAgain: systemd does not give up, however often it must restart the daemon.
// resolv.conf is still guarded.
func TestKillAgainAndAgain(t *testing.T) {
	n := newServingNode(t)
	for range 8 {
		pid := n.mainPID()
		n.Run("systemctl", "kill", "--signal=KILL", "node-dns.service")
		n.Await("another process", func() bool { return n.mainPID() != pid && n.mainPID() != "0" })
	}
	n.awaitServing()
	n.WriteFile(resolvConf, "nameserver 203.0.113.1\n", 0o644)
	n.awaitServing()
}

// TestStopUnderWay: queries without an answer delay the end of the daemon, but not the return of
// the original nameservers.
func TestStopUnderWay(t *testing.T) {
	n := newServingNode(t)
	pid := n.mainPID()
	n.upstream.Signal(syscall.SIGSTOP)
	for _, how := range []string{"+notcp", "+tcp"} {
		n.pods.Start("dig", how, "+tries=1", "+timeout=10", "@"+nodeIP, "slow.test", "TXT")
	}
	n.Await("queries under way", func() bool { return n.upstreamHasWaiting() })
	n.Run("systemctl", "stop", "--no-block", "node-dns.service")
	n.awaitOriginal()
	if now := n.mainPID(); now != pid {
		t.Errorf("the original resolv.conf came back only after the daemon had ended: got process %s, want %s", now, pid)
	}
	n.upstream.Signal(syscall.SIGCONT)
	n.Await("node-dns to end", func() bool { return n.property("node-dns.service", "ActiveState") == "inactive" })
}

// upstreamHasWaiting reports whether the stopped nameserver at ns1 has queries in its socket.
func (n *node) upstreamHasWaiting() bool {
	fields := strings.Fields(n.lan.Run("ss", "-lunH", "src", ns1+":53"))
	return len(fields) > 1 && fields[1] != "0"
}

// TestCrashLoop: a daemon that cannot start leaves the node with its original nameservers, and
// starts automatically once it can.
func TestCrashLoop(t *testing.T) {
	const program = "/usr/sbin/node-dns"
	for _, test := range []struct {
		name        string
		spoil, mend func(n *node)
	}{
		{
			"a program that fails",
			func(n *node) {
				n.Run("mv", program, program+".good")
				n.WriteFile(program, "#!/bin/sh\nexit 1\n", 0o755)
			},
			func(n *node) { n.Run("mv", program+".good", program) },
		},
		{
			"a missing program",
			func(n *node) { n.Run("mv", program, program+".good") },
			func(n *node) { n.Run("mv", program+".good", program) },
		},
		{
			"an address that cannot be bound",
			func(n *node) { n.WriteFile("/etc/sysconfig/node-dns", "OPTIONS=--listen 192.0.2.99:53\n", 0o644) },
			func(n *node) { n.Run("rm", "/etc/sysconfig/node-dns") },
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			n := newServingNode(t)
			test.spoil(n)
			since := time.Now()
			n.Run("systemctl", "kill", "--signal=KILL", "node-dns.service")
			n.awaitOriginal()
			t.Logf("the original nameservers %v after SIGKILL", time.Since(since).Round(time.Millisecond))
			before := n.restarts()
			n.Await("systemd to go on trying", func() bool { return n.restarts() > before })
			if got := n.libc(); got != "192.0.2.1" {
				t.Errorf("meanwhile libc resolves www.up.example to %q", got)
			}
			test.mend(n)
			n.awaitServing()
		})
	}
}

// TestCrashLoopAtBoot: units that need name resolution at boot are not delayed.
func TestCrashLoopAtBoot(t *testing.T) {
	n := newNode(t)
	n.Enable("node-dns.service")
	n.CopyFile("/usr/sbin/node-dns", "/bin/false", 0o755)
	n.WriteFile("/etc/systemd/system/kubelet.service",
		"[Unit]\nAfter=nss-lookup.target\n[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\n", 0o644)
	n.Enable("kubelet.service")
	n.boot()
	if got := n.property("kubelet.service", "ActiveState"); got != "active" {
		t.Errorf("kubelet.service is %s", got)
	}
	n.awaitOriginal()
}

// TestTrample: another program's write to resolv.conf does not last, even directly after a run of
// the hook.
func TestTrample(t *testing.T) {
	n := newServingNode(t)
	for range 8 {
		n.Run("systemctl", "start", "node-dns-apply.service")
	}
	n.WriteFile(resolvConf, "nameserver 203.0.113.1\n", 0o644)
	n.awaitServing()
	n.Run("systemctl", "stop", "node-dns.service")
	if got := n.ReadFile(resolvConf); got != original {
		t.Errorf("after the stop resolv.conf is\n%s", got)
	}
}

// TestAccess: the daemon cannot write root's files. Any user may query its status and a name. Only
// root and the group node-dns-admin may see other clients' queries and the cache.
func TestAccess(t *testing.T) {
	n := newServingNode(t)
	if got := n.Run("stat", "--format=%U:%G %a", "/run/node-dns", "/run/node-dns/control.sock", "/var/cache/node-dns", "/var/lib/node-dns"); got !=
		"node-dns:node-dns 755\nnode-dns:node-dns 666\nnode-dns:node-dns 750\nroot:root 755\n" {
		t.Errorf("got owners and modes:\n%s", got)
	}
	for _, command := range []string{"status", "servers", "query localhost.", "cache stats"} {
		n.Run("runuser", "--user", "nobody", "--", "sh", "-c", "node-dns "+command)
	}
	if out := n.Run("runuser", "--user", "nobody", "--", "node-dns", "status"); !strings.Contains(out, "\nHidden      names and clients of queries, cached answers: ") {
		t.Errorf("the output for the user nobody does not say what is hidden:\n%s", out)
	}
	for _, command := range []string{"monitor", "cache dump", "cache flush --all", "log-queries on"} {
		if out, err := n.Try("runuser", "--user", "nobody", "--", "sh", "-c", "node-dns "+command); err == nil || !strings.Contains(out, "permission denied: only root and members of the group node-dns-admin may do this") {
			t.Errorf("the user nobody may run %s: %v\n%s", command, err, out)
		}
	}
	n.Run("runuser", "--user", "nobody", "--supp-group", "node-dns-admin", "--", "node-dns", "cache", "flush", "--all")
	for _, path := range []string{"/etc/resolv.conf", "/var/lib/node-dns/x", "/etc/node-dns/x", "/usr/sbin/x", "/etc/origin/node/resolv.conf"} {
		if out, err := n.Try("nsenter", "--target", n.mainPID(), "--mount", "--", "runuser", "--user", "node-dns", "--", "sh", "-c", `: >>"$0"`, path); err == nil {
			t.Errorf("the daemon's user may write %s\n%s", path, out)
		}
	}
	if got := n.ReadFile("/proc/" + n.mainPID() + "/status"); !strings.Contains(got, "CapEff:\t0000000000000400\n") || !strings.Contains(got, "NoNewPrivs:\t1\n") {
		t.Errorf("the daemon has other capabilities than to bind a low port:\n%s", got)
	}
}
