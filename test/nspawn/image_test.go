package nspawn

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/node-dns/node-dns/internal/sys/journal"
	"github.com/node-dns/node-dns/internal/test/lab"
	"github.com/node-dns/node-dns/internal/test/rpmbuild"
)

// imageNode is a node of an image-based system: it boots a deployment of an image, and its /var is
// empty at first.
type imageNode struct {
	*node
	vars        string
	deployments int
}

// deployment is an image's copy on the node's disk. /usr is the image's own.
type deployment struct {
	lab.Deployment
	defaults string // the image's /etc, which ostree keeps as /usr/etc
}

func newImageNode(t *testing.T) *imageNode {
	t.Helper()
	n := &imageNode{node: newBareNode(t), vars: "/run/deployments/var"}
	if err := os.MkdirAll(n.vars, 0o755); err != nil {
		t.Fatal(err)
	}
	return n
}

// baseImage is an image without node-dns, from a system with rpm's database in the place of
// image-based systems and without its /var.
func (n *imageNode) baseImage(name string) *lab.Container {
	n.t.Helper()
	c := n.l.Container(name)
	rpmbuild.Prepare(n.t, c)
	c.Run("sh", "-c", "mkdir -p /usr/lib/sysimage && mv /var/lib/rpm /usr/lib/sysimage/ && echo %_dbpath /usr/lib/sysimage/rpm >/etc/rpm/macros")
	c.Enable("NetworkManager.service")
	return c
}

// image is an image with this release of node-dns, built by the Containerfile of a directory of
// contrib.
func (n *imageNode) image(name, directory string, release int, macros rpmbuild.Macros, first ...string) *lab.Container {
	n.t.Helper()
	c := n.baseImage(name)
	for _, command := range first {
		c.Run("sh", "-c", command)
	}
	context := n.t.TempDir()
	if err := os.CopyFS(context, os.DirFS(filepath.Join(repository, "contrib", directory))); err != nil {
		n.t.Fatal(err)
	}
	p := rpmbuild.Build(n.t, release, macros)
	n.l.Run("cp", p.Main, p.SELinux, context)
	before := lost(c)
	buildContainerfile(n.t, c, context)
	if d := cmp.Diff(before, lost(c)); d != "" {
		n.t.Errorf("the image has files that a node will not have or not update (-before +after):\n%s", d)
	}
	return c
}

// lost returns an image's files in directories that belong to the node: the installation creates
// them, and no update changes them. The node compiles /usr/lib/systemd/catalog again itself
// (systemd-journal-catalog-update.service, which Debian 12 lacks), and /var/tmp is rpm's.
func lost(c *lab.Container) (all []string) {
	for _, dir := range []string{"/var", "/opt", "/srv", "/root", "/home", "/run", "/tmp", "/usr/local"} {
		all = append(all, c.Own(dir)...)
	}
	return slices.DeleteFunc(all, func(path string) bool {
		return path == "/var/tmp" || strings.HasPrefix("/var/lib/systemd/catalog/database", path)
	})
}

// deploy copies an image to the node's disk and merges the /etc of the running deployment; nil if
// the node is new.
func (n *imageNode) deploy(image *lab.Container, running *deployment) *deployment {
	n.t.Helper()
	n.deployments++
	etc := filepath.Join("/run/deployments", string(rune('0'+n.deployments)))
	d := &deployment{lab.Deployment{Usr: image.Path("/usr"), Etc: etc, Var: n.vars}, image.Path("/etc")}
	n.l.Run("cp", "--archive", d.defaults, etc)
	if running != nil {
		if err := mergeEtc(etc, running.Etc, running.defaults); err != nil {
			n.t.Fatal(err)
		}
	}
	// ostree keeps no file times, so systemd could not recognize a new deployment. ostree removes
	// these files instead (ostree issues 1628, 3069).
	n.l.Run("rm", "-f", filepath.Join(etc, ".updated"), filepath.Join(n.vars, ".updated"))
	return d
}

// configure does what an admin or the installer does on a node. It copies the connection that
// newBareNode created below its own root.
func (n *imageNode) configure(root string) {
	n.t.Helper()
	for _, path := range []string{"/etc/NetworkManager/conf.d/pods.conf", "/etc/NetworkManager/system-connections/eth0.nmconnection"} {
		n.CopyFile(path, root+path, 0o600)
	}
}

// checkBooted: all units have started, and the system is read-only.
func (n *imageNode) checkBooted() {
	n.t.Helper()
	if got := n.Run("systemctl", "list-units", "--failed", "--no-legend", "--plain"); got != "" {
		n.t.Errorf("failed units:\n%s", got)
	}
	if out, err := n.Try("touch", "/usr/x", "/x"); err == nil || strings.Count(out, "Read-only file system") != 2 {
		n.t.Errorf("the system is writable: %v, %s", err, out)
	}
}

// checkServing: the image has enabled the service, which runs and has created its directories. The
// package is unmodified.
func (n *imageNode) checkServing(release string) {
	n.t.Helper()
	n.awaitServing()
	n.awaitApplied()
	n.checkBooted()
	if out, err := n.Try("rpm", "--verify", "--noconfig", "node-dns"); err != nil {
		n.t.Errorf("rpm --verify: got %v\n%s", err, out)
	}
	if n.exists(unitFiles + "systemd-journal-catalog-update.service") {
		n.Run("journalctl", "--list-catalog", journal.UpstreamDown.Explain().ID)
	}
	if got, want := n.Run("node-dns", "--version"), "node-dns "+rpmbuild.Version+"-"+release+"\n"; got != want {
		n.t.Errorf("got version %q, want %q", got, want)
	}
	if got, want := n.Run("stat", "--format=%n %U:%G %a", "/var/cache/node-dns", "/var/lib/node-dns"),
		"/var/cache/node-dns node-dns:node-dns 750\n/var/lib/node-dns root:root 755\n"; got != want {
		n.t.Errorf("got owners and modes\n%s, want\n%s", got, want)
	}
}

// user returns the daemon's line in /etc/passwd.
func (n *imageNode) user() string {
	n.t.Helper()
	return n.Run("getent", "passwd", "node-dns")
}

// restart reboots into another deployment. The shutdown restores resolv.conf.
func (n *imageNode) restart(d *deployment) {
	n.t.Helper()
	n.PowerOff()
	if got := n.ReadFile(resolvConf); got != original {
		n.t.Errorf("after a shutdown resolv.conf is\n%s", got)
	}
	n.Deploy(d.Deployment)
	n.boot()
}

// TestImage follows a node of an image-based system: it is installed, upgraded, rolled back, and
// switched to an image without node-dns and back. /usr is read-only, /etc is merged, and /var
// belongs to the node.
func TestImage(t *testing.T) {
	n := newImageNode(t)
	own := n.Path("")
	base, first := n.baseImage("base"), n.image("first", "bootc", 1, rpmbuild.Systemd)
	// The second image was built elsewhere, where the user has a different ID.
	second := n.image("second", "bootc", 2, rpmbuild.Fallback, "for n in 1 2 3 4; do useradd --system --no-create-home earlier-$n; done")

	installed := n.deploy(first, nil)
	n.Deploy(installed.Deployment)
	n.configure(own)
	n.boot()
	n.checkServing("1")
	n.Run("systemctl", "stop", "node-dns.service")
	if got := n.ReadFile(resolvConf); got != original {
		t.Errorf("after the stop resolv.conf is\n%s", got)
	}
	n.Run("systemctl", "start", "node-dns.service")
	n.checkServing("1")

	const mine = "OPTIONS=--listen " + nodeIP + ":53\n"
	n.WriteFile("/etc/sysconfig/node-dns", mine, 0o644)
	user := n.user()
	upgraded := n.deploy(second, installed)
	n.restart(upgraded)
	n.checkServing("2")
	if got := n.ReadFile("/etc/sysconfig/node-dns"); got != mine {
		t.Errorf("after an upgrade the admin's file is %q", got)
	}
	if now := n.user(); now == user {
		t.Errorf("the user's ID is the same in both images: %s", now)
	}

	n.restart(installed) // bootc rollback
	n.checkServing("1")

	without := n.deploy(base, installed)
	n.restart(without)
	n.awaitOriginal()
	n.checkBooted()
	if got := n.libc(); got != "192.0.2.1" {
		t.Errorf("with an image without node-dns libc resolves www.up.example to %q", got)
	}

	// Once the admin has added a user, /etc/passwd belongs to the node, and an image no longer adds
	// users.
	n.Run("useradd", "--no-create-home", "--home-dir=/", "admin")
	n.restart(n.deploy(first, without))
	n.Run("id", "admin")
	n.checkServing("1")
}

// TestImageOfOpenShift: the image contains node-dns, which does not run until a MachineConfig
// enables it.
func TestImageOfOpenShift(t *testing.T) {
	n := newImageNode(t)
	c := n.image("rhcos", "machineconfig", 1, rpmbuild.Systemd)
	if got, _ := c.Try("systemctl", "is-enabled", "node-dns.service"); got != "disabled\n" {
		t.Errorf("node-dns.service is %s", got)
	}
}
