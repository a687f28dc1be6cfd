package nspawn

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/node-dns/node-dns/internal/admin/doctor"
)

// doctor returns the worst finding of a check of node-dns doctor, as one line.
func (n *node) doctor(check string) (level doctor.Level, said string) {
	n.t.Helper()
	out, err := n.Try("node-dns", "doctor", "-o", "json")
	var report doctor.Report
	if jsonErr := json.Unmarshal([]byte(out), &report); jsonErr != nil || (err != nil) != (report.Failures > 0) {
		n.t.Fatalf("%v, %v:\n%s", err, jsonErr, out)
	}
	for _, f := range report.Findings {
		if f.Check == check && (level == "" || f.Level == doctor.Fail || level == doctor.OK) {
			level, said = f.Level, strings.Join(append([]string{f.What}, append(f.Details, f.Fix)...), "\n")
		}
		if check == "" && f.Level == doctor.Fail {
			level, said = f.Level, f.Check+": "+f.What
		}
	}
	return level, said
}

// TestDoctor: from systemd's state, doctor tells whether a node works, and if not, why.
func TestDoctor(t *testing.T) {
	n := newServingNode(t)
	want := func(check string, level doctor.Level, parts ...string) {
		t.Helper()
		got, said := n.doctor(check)
		if got != level {
			t.Errorf("%s: got %q, want %q: %s", check, got, level, said)
		}
		for _, part := range parts {
			if !strings.Contains(said, part) {
				t.Errorf("%s: want %q, got %s", check, part, said)
			}
		}
	}
	want("", "")
	want("port", doctor.OK, nodeIP+":53: only node-dns listens (udp+tcp)")
	want("units", doctor.OK, "node-dns.service active/enabled", "node-dns-apply.path active")
	want("storage", doctor.OK, "/var/lib/node-dns", "/var/cache/node-dns", "/run/node-dns")
	want("versions", doctor.OK, "systemd 2", "NetworkManager 1.")

	// Other users may run doctor, and what they cannot see is not a failure.
	out, err := n.Try("runuser", "-u", "nobody", "--", "node-dns", "doctor")
	if err != nil {
		t.Errorf("as another user: got %v", err)
	}
	for _, part := range []string{"[ok]   node-dns dev runs", nodeIP + ":53: only node-dns listens (udp+tcp)", "run this as root"} {
		if !strings.Contains(out, part) {
			t.Errorf("the output for other users lacks %q:\n%s", part, out)
		}
	}

	// The unit's prefix "-" hid that systemd could not run the hook, and doctor reported nothing.
	want("commands", doctor.OK)
	n.Run("chmod", "0644", "/usr/sbin/origin-dns-dispatcher") // the link's target
	_, _ = n.Try("systemctl", "restart", "node-dns.service")
	want("commands", doctor.Fail, "cannot run /usr/", "/origin-dns-dispatcher for node-dns", "Permission denied", "systemctl restart node-dns")
	n.Run("chmod", "0755", "/usr/sbin/origin-dns-dispatcher")
	n.Run("systemctl", "restart", "node-dns.service")
	n.awaitServing()
	want("commands", doctor.OK)

	n.Run("systemctl", "stop", "node-dns-apply.path")
	want("units", doctor.Fail, "node-dns-apply.path is inactive", "systemctl restart node-dns-apply.path")
	n.Run("systemctl", "start", "node-dns-apply.path")
	n.Run("systemctl", "disable", "node-dns.service")
	want("units", doctor.Warn, "does not start at the next boot")

	n.Run("systemctl", "stop", "node-dns.service")
	want("daemon", doctor.Fail, "it is stopped and not enabled", "systemctl enable --now node-dns")
	want("resolv.conf", doctor.OK, "not managed by node-dns, nameserver "+ns1)
	n.Run("systemctl", "mask", "node-dns.service")
	want("daemon", doctor.Fail, "node-dns.service is masked", "systemctl unmask node-dns")
	n.Run("systemctl", "unmask", "node-dns.service")

	n.WriteFile("/etc/systemd/system/node-dns.service.d/limit.conf",
		"[Unit]\nStartLimitIntervalSec=100\nStartLimitBurst=2\n[Service]\nExecStart=\nExecStart=/bin/sh -c 'echo no such luck; exit 7'\nRestartSec=1ms\n", 0o644)
	n.Run("systemctl", "daemon-reload")
	_, _ = n.Try("systemctl", "start", "node-dns.service") // it fails, or is being restarted
	n.Await("systemd to give it up", func() bool { return n.property("node-dns.service", "ActiveState") == "failed" })
	want("daemon", doctor.Fail, "systemd no longer restarts it (start-limit-hit)", "systemctl reset-failed node-dns", "Start request repeated too quickly")
}
