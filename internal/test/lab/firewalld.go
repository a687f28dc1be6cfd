package lab

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// firewalldName is the name on the bus, and that of the interface.
const firewalldName = "org.fedoraproject.FirewallD1"

// Firewalld starts firewalld(1) with its installed defaults, and returns when it has loaded its
// rules. It needs the machine's bus (see Bus). Its permanent configuration is in /etc/firewalld.
func (l *Lab) Firewalld() *Process {
	l.t.Helper()
	Need(l.t, "firewalld", "firewall-cmd", "nft", "dbus-send")
	if _, err := os.Stat("/etc/protocols"); err != nil { // without it firewalld rejects its own services (INVALID_PROTOCOL)
		Skip(l.t, "firewalld needs /etc/protocols: Debian's netbase, RHEL's setup")
	}
	p := l.Start(Command{Argv: []string{"firewalld", "--nofork", "--nopid", "--log-target=console"}})
	// As `firewall-cmd --state` does, which takes as much CPU time to start as firewalld itself.
	l.Await("firewalld", func() bool {
		out, err := l.Try("dbus-send", "--system", "--print-reply=literal", "--dest="+firewalldName, "/org/fedoraproject/FirewallD1",
			"org.freedesktop.DBus.Properties.Get", "string:"+firewalldName, "string:state")
		return err == nil && strings.Contains(out, "RUNNING")
	})
	return p
}

// flushRules removes all nftables rules. They belong to the network namespace and outlive the
// program that made them.
func flushRules() error {
	if _, err := exec.LookPath("nft"); err != nil {
		return nil
	}
	if out, err := exec.Command("nft", "flush", "ruleset").CombinedOutput(); err != nil {
		return fmt.Errorf("removing nftables rules: %w: %s", err, out)
	}
	return nil
}
