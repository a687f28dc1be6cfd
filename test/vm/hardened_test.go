package vm

import (
	"strings"
	"testing"
)

// modes are the modes of our files and directories under any umask.
const modes = `/etc/resolv.conf 644
/run/node-dns 755
/run/node-dns/control.sock 666
/var/cache/node-dns 750
/var/lib/node-dns 755
/var/lib/node-dns/resolv.conf.orig 644
/var/lib/node-dns/upstreams.json 644
`

// TestHardened tests a host without IPv6 where users do not see other users' processes, shared
// memory is not executable, and root's umask makes new files unreadable by others.
func TestHardened(t *testing.T) {
	if testing.Short() {
		t.Skip("only the full lane runs it")
	}
	g := newGuest(t, strictest(), true, "ipv6.disable=1")
	g.install()
	g.Run("mount -o remount,hidepid=2 /proc && mount -o remount,noexec,nosuid,nodev /dev/shm")
	if out, err := g.Try("cat /proc/sys/net/ipv6/conf/all/forwarding"); err == nil {
		t.Fatalf("the guest has IPv6: %s", out)
	}
	g.Run("umask 077; systemctl enable --quiet --now node-dns")
	g.awaitPointed()
	g.Run("umask 077; origin-dns-dispatcher apply")
	g.checkAnswers()
	g.checkResolves()
	g.checkDoctor("the start")
	for line := range strings.Lines(modes) {
		path, want, _ := strings.Cut(strings.TrimSpace(line), " ")
		if got := strings.TrimSpace(g.Run("stat -L -c %a " + path)); got != want {
			t.Errorf("%s has the mode %s, want %s", path, got, want)
		}
	}
	g.checkLabels()
	g.Run("umask 077; systemctl restart node-dns")
	g.awaitPointed()
	g.Run("umask 077; systemctl stop node-dns")
	g.awaitOriginal()
	if got := strings.TrimSpace(g.Run("stat -L -c %a /etc/resolv.conf")); got != "644" {
		t.Errorf("resolv.conf was restored with mode %s", got)
	}
	g.checkDenials()
}
