package lab

import (
	"os"
	"testing"
)

// TestInstall: an installed package runs, and only in the machine.
func TestInstall(t *testing.T) {
	const program = "/lib/systemd/systemd-resolved"
	_, before := os.Stat(program)
	c := New(t).Container("node")
	c.Boot()
	c.Unmask("systemd-resolved.service")
	c.Install("systemd-resolved")
	if got := c.Run("systemctl", "is-active", "systemd-resolved.service"); got != "active\n" {
		t.Errorf("the unit is %s", got)
	}
	if got := c.Run("readlink", "/etc/resolv.conf"); got != "../run/systemd/resolve/stub-resolv.conf\n" {
		t.Errorf("its script made resolv.conf %q", got)
	}
	if _, after := os.Stat(program); (before == nil) != (after == nil) {
		t.Errorf("on the host the program existed before: %v, and after: %v", before == nil, after == nil)
	}
}
