package nspawn

import (
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/node-dns/node-dns/internal/test/rpmbuild"
)

// newPackageNode is a node with a lease and rpm, but without the product.
func newPackageNode(t *testing.T) *node {
	t.Helper()
	n := newBareNode(t)
	n.boot()
	n.awaitOriginal()
	rpmbuild.Prepare(t, n.Container)
	return n
}

// users are the files that systemd-sysusers(8) writes. The user stays when the package is removed,
// because its ID must not be reused.
var users = []string{
	"/etc/passwd", "/etc/passwd-", "/etc/group", "/etc/group-", "/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/.pwd.lock",
}

// captured are the original nameservers, in the files that dnsmasq and the kubelet may still read.
var captured = []string{"/etc/dnsmasq.d", "/etc/dnsmasq.d/origin-upstream-dns.conf", "/etc/origin", "/etc/origin/node", "/etc/origin/node/resolv.conf"}

// passing are files that exist until the next boot: a lock that another process may hold, and a
// directory that others may use.
var passing = []string{"/run/origin-dns-dispatcher.lock", "/run/NetworkManager/conf.d"}

// configuration are the files of the package that belong to the admin.
var configuration = []string{"/etc/node-dns/node-dns.yaml", "/etc/sysconfig/node-dns"}

// files returns the files of an installed package.
func (n *node) files(name string) []string {
	n.t.Helper()
	return strings.Fields(n.Run("rpm", "--query", "--list", name))
}

// checkUnchanged: the product is installed, and DNS is as before, even after an event of
// NetworkManager.
func (n *node) checkUnchanged(before map[string]string, may ...string) {
	n.t.Helper()
	n.checkTree(before, may...)
	for unit, want := range map[string]string{"node-dns.service": "inactive\ndisabled\n", "node-dns-apply.path": "inactive\nstatic\n"} {
		if got := n.Run("systemctl", "show", "--property=ActiveState,UnitFileState", "--value", unit); got != want {
			n.t.Errorf("%s is %q, want %q", unit, got, want)
		}
	}
	n.Run("nmcli", "connection", "up", "eth0")
	n.awaitOriginal()
	n.checkTree(before, may...)
}

func (n *node) pid() string {
	n.t.Helper()
	return strings.TrimSpace(n.Run("systemctl", "show", "--property=MainPID", "--value", "node-dns.service"))
}

// inode distinguishes two resolv.conf files with the same content.
func (n *node) inode() uint64 {
	n.t.Helper()
	info, err := os.Stat(n.Path(resolvConf))
	if err != nil {
		n.t.Fatal(err)
	}
	return info.Sys().(*syscall.Stat_t).Ino
}

// replace runs a command that installs another release. A new process must answer, and resolv.conf
// must be the same file.
func (n *node) replace(release string, argv ...string) {
	n.t.Helper()
	pid, inode := n.pid(), n.inode()
	n.Run(argv...)
	if now := n.pid(); now == pid || now == "0" {
		n.t.Errorf("%v: got process %s, want another one than %s", argv, now, pid)
	}
	if n.inode() != inode || !n.isPointed() {
		n.t.Errorf("%v: resolv.conf was changed:\n%s", argv, n.ReadFile(resolvConf))
	}
	n.awaitServing()
	if got, want := n.Run("node-dns", "--version"), "node-dns "+rpmbuild.Version+"-"+release+"\n"; got != want {
		n.t.Errorf("%v: got version %q, want %q", argv, got, want)
	}
}

// verify: only files that the admin changed differ from the package.
func (n *node) verify(want string) {
	n.t.Helper()
	if got, _ := n.Try("rpm", "--verify", "node-dns"); got != want {
		n.t.Errorf("rpm --verify: got\n%s, want\n%s", got, want)
	}
}

// TestPackage follows a package through rpm(8): its installation changes no DNS, and its removal
// leaves nothing.
func TestPackage(t *testing.T) {
	n := newPackageNode(t)
	before := n.tree()
	first, second := rpmbuild.Build(t, 1, rpmbuild.Systemd), rpmbuild.Build(t, 2, rpmbuild.Systemd)
	one, two := rpmbuild.Put(n.Container, first.Main), rpmbuild.Put(n.Container, second.Main)

	n.Run("rpm", "--install", one)
	n.verify("")
	n.checkUnchanged(before, slices.Concat(users, n.files("node-dns"))...)

	n.Run("systemctl", "enable", "--now", "node-dns")
	n.awaitServing()
	n.verify("")

	// Before the group node-dns-admin existed, the group node-dns had its rights and could read the
	// daemon's credentials.
	n.Run("gpasswd", "--add", "nobody", "node-dns")
	n.replace("2", "rpm", "--upgrade", two)
	if got := n.Run("getent", "group", "node-dns", "node-dns-admin"); !strings.HasSuffix(got, ":nobody\n") || strings.Count(got, "nobody") != 1 {
		t.Errorf("after an upgrade: got the groups:\n%s", got)
	}
	n.replace("1", "rpm", "--upgrade", "--oldpackage", one)
	n.verify("")

	n.Run("systemctl", "stop", "node-dns")
	if got := n.ReadFile(resolvConf); got != original {
		t.Errorf("after the stop resolv.conf is\n%s", got)
	}
	n.Run("systemctl", "start", "node-dns")
	n.awaitServing()

	// A run exceeded its deadline, and the failed unit was left without its file.
	n.WriteFile("/run/systemd/system/node-dns-apply.service.d/fails.conf", "[Service]\nExecStart=\nExecStart=/bin/sh -c 'kill -KILL $$$$'\n", 0o644)
	n.Run("systemctl", "daemon-reload")
	if out, err := n.Try("systemctl", "start", "node-dns-apply.service"); err == nil {
		t.Errorf("a killed run did not fail: %s", out)
	}
	n.Run("rm", "-r", "/run/systemd/system/node-dns-apply.service.d")
	n.Run("rpm", "--erase", "node-dns")
	if got := n.ReadFile(resolvConf); got != original {
		t.Errorf("after the removal resolv.conf is\n%s", got)
	}
	n.checkTree(before, slices.Concat(users, captured, passing)...)
	if got := n.libc(); got != "192.0.2.1" {
		t.Errorf("libc resolves www.up.example to %q", got)
	}
	if got := n.Run("systemctl", "list-units", "--all", "--no-legend", "--plain", "node-dns*"); got != "" {
		t.Errorf("systemd still knows\n%s", got)
	}
}

// TestUpgradeUnderLoad: neither an upgrade nor a downgrade loses a query.
func TestUpgradeUnderLoad(t *testing.T) {
	n := newPackageNode(t)
	first, second := rpmbuild.Build(t, 1, rpmbuild.Systemd), rpmbuild.Build(t, 2, rpmbuild.Systemd)
	one, two := rpmbuild.Put(n.Container, first.Main), rpmbuild.Put(n.Container, second.Main)
	n.Run("rpm", "--install", one)
	b := makeBusy(n)
	for _, step := range [][]string{{"rpm", "--upgrade", two}, {"rpm", "--upgrade", "--oldpackage", one}} {
		pid, inode := n.pid(), n.inode()
		b.during(5000, func() { b.Run(step...) })
		if n.pid() == pid || n.inode() != inode {
			t.Errorf("%v: got process %s, had %s; got resolv.conf inode %d, had %d", step, n.pid(), pid, n.inode(), inode)
		}
	}
}

// TestUpgradeFromOldLayout: a package whose program was NetworkManager's hook file itself is
// upgraded while NetworkManager runs its hooks continuously. No hook fails, clients get answers,
// and the way back works afterwards. A downgrade, between events, keeps answering too.
func TestUpgradeFromOldLayout(t *testing.T) {
	n := newPackageNode(t)
	before, after := rpmbuild.Build(t, rpmbuild.OldLayout, rpmbuild.Systemd), rpmbuild.Build(t, 1, rpmbuild.Systemd)
	n.Run("rpm", "--install", rpmbuild.Put(n.Container, before.Main))
	n.Run("systemctl", "enable", "--now", "node-dns")
	n.awaitServing()
	n.WriteFile("/root/events", "#!/bin/sh\nwhile :; do NM_DISPATCHER_ACTION=dhcp4-change "+hookFile+" eth0 dhcp4-change || echo failed: $?; done\n", 0o755)
	startEvents := func() { n.Run("systemd-run", "--quiet", "--unit=events", "/root/events") }
	startEvents()
	n.Run("rpm", "--upgrade", rpmbuild.Put(n.Container, after.Main))
	n.awaitServing()
	// No events during the downgrade: the kernel sees that the file is a script, and starts the
	// shell, which may find the old package's program in its place. Nothing in this package can
	// prevent that.
	n.Run("systemctl", "stop", "events")
	n.Run("rpm", "--upgrade", "--oldpackage", rpmbuild.Put(n.Container, before.Main))
	n.awaitServing()
	startEvents()
	n.Run("rpm", "--upgrade", rpmbuild.Put(n.Container, after.Main))
	n.awaitServing()
	n.Run("systemctl", "stop", "events")
	if out := n.Journal("--unit=events", "--output=cat"); strings.Contains(out, "failed: ") || strings.Contains(out, "not found") {
		t.Errorf("a hook failed:\n%s", out)
	}
	n.Run("systemctl", "stop", "node-dns")
	n.awaitOriginal()
	n.Run("rpm", "--erase", "node-dns")
	n.awaitOriginal()
}

// TestPackageConfiguration: the admin's file stays, next to a new version's file, and when the
// package is removed.
func TestPackageConfiguration(t *testing.T) {
	n := newPackageNode(t)
	first, second := rpmbuild.Build(t, 1, rpmbuild.Systemd), rpmbuild.Build(t, 2, rpmbuild.Systemd)
	n.Run("rpm", "--install", rpmbuild.Put(n.Container, first.Main))
	files := n.files("node-dns")
	const mine = "logLevel: debug\n"
	n.WriteFile(configuration[0], mine, 0o644)
	n.Run("rpm", "--upgrade", rpmbuild.Put(n.Container, second.Main))
	// The changed file is kept, with the new one next to it. The other file is replaced.
	if got, beside := n.ReadFile(configuration[0]), n.ReadFile(configuration[0]+".rpmnew"); got != mine || !strings.HasSuffix(beside, "# new\n") {
		t.Errorf("after an upgrade the configuration is %q, and next to it is\n%s", got, beside)
	}
	if got := n.ReadFile(configuration[1]); !strings.HasSuffix(got, "# new\n") {
		t.Errorf("after an upgrade the unchanged file is\n%s", got)
	}
	if got := n.ReadFile(configuration[1] + ".rpmnew"); got != "" {
		t.Errorf("next to the unchanged file there is\n%s", got)
	}
	n.Run("rpm", "--erase", "node-dns")
	if got := n.ReadFile(configuration[0] + ".rpmsave"); got != mine {
		t.Errorf("after the removal the changed configuration is %q", got)
	}
	left := slices.DeleteFunc(files, func(name string) bool {
		_, err := os.Lstat(n.Path(name))
		return err != nil
	})
	// The admin's file, and two directories that also belong to NetworkManager.
	want := []string{"/etc/node-dns", "/usr/lib/NetworkManager", "/usr/lib/NetworkManager/dispatcher.d"}
	if d := cmp.Diff(want, left); d != "" {
		t.Errorf("remaining files of the package (-want +got):\n%s", d)
	}
}

// TestDNF does the same from a repository, with our own scriptlets, as in packages that were built
// without systemd's macros.
func TestDNF(t *testing.T) {
	n := newPackageNode(t)
	before := n.tree()
	first, second := rpmbuild.Build(t, 1, rpmbuild.Fallback), rpmbuild.Build(t, 2, rpmbuild.Fallback)
	rpmbuild.Publish(t, n.Container, first.Main, first.SELinux)
	n.Run("dnf", "--quiet", "--assumeyes", "install", "node-dns")
	n.checkUnchanged(before, slices.Concat(users, dnfs, n.files("node-dns"))...)
	n.Run("systemctl", "enable", "--now", "node-dns")
	n.awaitServing()

	rpmbuild.Publish(t, n.Container, first.Main, first.SELinux, second.Main, second.SELinux)
	n.replace("2", "dnf", "--quiet", "--assumeyes", "upgrade", "node-dns")
	n.replace("1", "dnf", "--quiet", "--assumeyes", "downgrade", "node-dns")
	n.verify("")

	n.Run("dnf", "--quiet", "--assumeyes", "remove", "node-dns")
	if got := n.ReadFile(resolvConf); got != original {
		t.Errorf("after the removal resolv.conf is\n%s", got)
	}
	n.checkTree(before, slices.Concat(users, captured, passing, dnfs)...)
}

// dnfs are the files that dnf and the test itself wrote.
var dnfs = []string{"/etc/yum.repos.d", "/etc/yum.repos.d/node-dns.repo"}
