package nspawn

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/node-dns/node-dns/internal/admin/doctor"
)

// doctor is what node-dns doctor says of one matter: its worst finding, in a line.
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

// TestDoctor: by what systemd says a node is well, and when it is not, why.
func TestDoctor(t *testing.T) {
	n := newServingNode(t)
	want := func(check string, level doctor.Level, parts ...string) {
		t.Helper()
		got, said := n.doctor(check)
		if got != level {
			t.Errorf("%s is %q, expected %q: %s", check, got, level, said)
		}
		for _, part := range parts {
			if !strings.Contains(said, part) {
				t.Errorf("%s does not say %q, but %s", check, part, said)
			}
		}
	}
	want("", "")
	want("port", doctor.OK, nodeIP+":53: node-dns listens (udp+tcp), and nobody else")
	want("units", doctor.OK, "node-dns.service active/enabled", "node-dns-apply.path active")
	want("storage", doctor.OK, "/var/lib/node-dns", "/var/cache/node-dns", "/run/node-dns")
	want("versions", doctor.OK, "systemd 2", "NetworkManager 1.")

	// Others may ask the daemon how it is, and no failure is made of what they cannot see.
	out, err := n.Try("runuser", "-u", "nobody", "--", "node-dns", "doctor")
	if err != nil {
		t.Errorf("for others: %v", err)
	}
	for _, part := range []string{"[ok]   node-dns dev runs", nodeIP + ":53: node-dns listens (udp+tcp), and nobody else", "run this as root"} {
		if !strings.Contains(out, part) {
			t.Errorf("others are not told %q:\n%s", part, out)
		}
	}

	// The unit's prefix "-" hid that systemd could not run the hook, and doctor found nothing wrong.
	want("commands", doctor.OK)
	n.Run("chmod", "0644", "/usr/sbin/origin-dns-dispatcher") // of what a link leads to
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
	want("daemon", doctor.Fail, "it is stopped, and not enabled", "systemctl enable --now node-dns")
	want("resolv.conf", doctor.OK, "not ours, nameserver "+ns1)
	n.Run("systemctl", "mask", "node-dns.service")
	want("daemon", doctor.Fail, "node-dns.service is masked", "systemctl unmask node-dns")
	n.Run("systemctl", "unmask", "node-dns.service")

	n.WriteFile("/etc/systemd/system/node-dns.service.d/limit.conf",
		"[Unit]\nStartLimitIntervalSec=100\nStartLimitBurst=2\n[Service]\nExecStart=\nExecStart=/bin/sh -c 'echo no such luck; exit 7'\nRestartSec=1ms\n", 0o644)
	n.Run("systemctl", "daemon-reload")
	_, _ = n.Try("systemctl", "start", "node-dns.service") // it fails, or is being started again
	n.Await("systemd to give it up", func() bool { return n.property("node-dns.service", "ActiveState") == "failed" })
	want("daemon", doctor.Fail, "systemd has given it up (start-limit-hit)", "systemctl reset-failed node-dns", "Start request repeated too quickly")
}
