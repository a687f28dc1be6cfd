package hostdns

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/node-dns/node-dns/internal/sys/atomicfile"
)

// NoWayBack is Hold's text if systemd has not run our program in this start of the unit. The same
// program restores resolv.conf at a stop. Whatever keeps systemd from running it (SELinux, noexec,
// a missing file, a drop-in) would leave the host with a nameserver that no longer exists.
const NoWayBack = "systemd did not run origin-dns-dispatcher when node-dns.service started, so nothing would restore it at a stop"

// wayBackMode lets the daemon, which is not root, read the stamp.
const wayBackMode = 0o644

// RecordWayBack writes the stamp that NewPlan requires before it points resolv.conf at this node.
// Only a program that systemd runs may call it. invocation is the ID of node-dns.service's start
// (systemd.exec(5), INVOCATION_ID).
func (p Paths) RecordWayBack(invocation string) error {
	if _, err := (atomicfile.Writer{}).Write(p.WayBack, []byte(invocation+"\n"), wayBackMode); err != nil {
		return fmt.Errorf("recording that systemd runs origin-dns-dispatcher: %w", err)
	}
	return nil
}

// CheckWayBack removes the stamp of an earlier start of the unit, and reports whether there is one
// of this start. The daemon calls it before it answers any query.
func (p Paths) CheckWayBack(invocation string) (ok bool, err error) {
	data, err := readBounded(p.WayBack)
	if err == nil && strings.TrimSpace(string(data)) == invocation {
		return true, nil
	}
	if err := os.Remove(p.WayBack); err != nil && !os.IsNotExist(err) {
		return false, fmt.Errorf("removing the stamp of an earlier start: %w", err)
	}
	return false, nil
}

// LacksWayBack reports whether the daemon's unit has started without the stamp. A daemon that was
// started by hand needs none if the unit is not installed or systemd does not run (sd_booted(3)).
func (p Paths) LacksWayBack() bool {
	exists := func(path string) bool {
		_, err := os.Stat(path)
		return err == nil
	}
	booted := exists(filepath.Join(p.Root, "/run/systemd/system"))
	return booted && p.hasUnit() && exists(filepath.Dir(p.WayBack)) && !exists(p.WayBack)
}
