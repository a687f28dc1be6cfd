package lab

import (
	"fmt"
	"os"
	"os/exec"
)

// Firewalld starts firewalld(1) with its installed defaults, and returns when it has loaded its
// rules. It needs the machine's bus (see Bus). Its permanent configuration is in /etc/firewalld.
func (l *Lab) Firewalld() *Process {
	l.t.Helper()
	Need(l.t, "firewalld", "firewall-cmd", "nft")
	if _, err := os.Stat("/etc/protocols"); err != nil { // without it firewalld rejects its own services (INVALID_PROTOCOL)
		Skip(l.t, "firewalld needs /etc/protocols: Debian's netbase, RHEL's setup")
	}
	p := l.Start(Command{Argv: []string{"firewalld", "--nofork", "--nopid", "--log-target=console"}})
	l.Await("firewalld", func() bool {
		_, err := l.Try("firewall-cmd", "--state")
		return err == nil
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
