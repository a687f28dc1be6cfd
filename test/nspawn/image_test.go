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

// imageNode is a node of an image-based system: it boots a deployment of an image, and its /var begins empty.
type imageNode struct {
	*node
	vars        string
	deployments int
}

// deployment is what of an image is on the node's disk: /usr is the image's own.
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

// baseImage is an image without node-dns: of a system that has rpm's database where image-based ones have it, and none of its /var.
func (n *imageNode) baseImage(name string) *lab.Container {
	n.t.Helper()
	c := n.l.Container(name)
	rpmbuild.Prepare(n.t, c)
	c.Run("sh", "-c", "mkdir -p /usr/lib/sysimage && mv /var/lib/rpm /usr/lib/sysimage/ && echo %_dbpath /usr/lib/sysimage/rpm >/etc/rpm/macros")
	c.Enable("NetworkManager.service")
	return c
}

// image is one with node-dns of this release, made as the Containerfile of a directory of contrib says.
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
		n.t.Errorf("the image has what a node will not have, or will not update (-before +after):\n%s", d)
	}
	return c
}

// lost is what an image has where a node has its own: it comes with an installation, and no update changes it. What systemd compiled of
// /usr/lib/systemd/catalog it compiles on the node again (systemd-journal-catalog-update.service, which Debian 12 has not), and /var/tmp is rpm's.
func lost(c *lab.Container) (all []string) {
	for _, dir := range []string{"/var", "/opt", "/srv", "/root", "/home", "/run", "/tmp", "/usr/local"} {
		all = append(all, c.Own(dir)...)
	}
	return slices.DeleteFunc(all, func(path string) bool {
		return path == "/var/tmp" || strings.HasPrefix("/var/lib/systemd/catalog/database", path)
	})
}

// deploy puts an image on the node's disk, beside what the node runs, of whose /etc it takes the changes; nil: it is new.
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
	// ostree keeps no times, by which systemd could tell that a deployment is new to it: it removes these instead (ostree issues 1628, 3069).
	n.l.Run("rm", "-f", filepath.Join(etc, ".updated"), filepath.Join(n.vars, ".updated"))
	return d
}

// configure is what an admin, or the installer, does to a node: its connection, which newBareNode has laid below the root of its own.
func (n *imageNode) configure(root string) {
	n.t.Helper()
	for _, path := range []string{"/etc/NetworkManager/conf.d/pods.conf", "/etc/NetworkManager/system-connections/eth0.nmconnection"} {
		n.CopyFile(path, root+path, 0o600)
	}
}

// checkBooted: all that systemd was to start has started, and the system cannot be written.
func (n *imageNode) checkBooted() {
	n.t.Helper()
	if got := n.Run("systemctl", "list-units", "--failed", "--no-legend", "--plain"); got != "" {
		n.t.Errorf("failed units:\n%s", got)
	}
	if out, err := n.Try("touch", "/usr/x", "/x"); err == nil || strings.Count(out, "Read-only file system") != 2 {
		n.t.Errorf("the system can be written: %v, %s", err, out)
	}
}

// checkServing: the image has enabled the service, which runs, and has made what it keeps; the package is as it was built.
func (n *imageNode) checkServing(release string) {
	n.t.Helper()
	n.awaitServing()
	n.awaitApplied()
	n.checkBooted()
	if out, err := n.Try("rpm", "--verify", "--noconfig", "node-dns"); err != nil {
		n.t.Errorf("rpm --verify says %v\n%s", err, out)
	}
	if n.exists(unitFiles + "systemd-journal-catalog-update.service") {
		n.Run("journalctl", "--list-catalog", journal.UpstreamDown.Explain().ID)
	}
	if got, want := n.Run("node-dns", "--version"), "node-dns "+rpmbuild.Version+"-"+release+"\n"; got != want {
		n.t.Errorf("it is %q, want %q", got, want)
	}
	if got, want := n.Run("stat", "--format=%n %U:%G %a", "/var/cache/node-dns", "/var/lib/node-dns"),
		"/var/cache/node-dns node-dns:node-dns 750\n/var/lib/node-dns root:root 755\n"; got != want {
		n.t.Errorf("owners and modes:\n%s, want\n%s", got, want)
	}
}

// user is the daemon's line in /etc/passwd.
func (n *imageNode) user() string {
	n.t.Helper()
	return n.Run("getent", "passwd", "node-dns")
}

// restart is a reboot into another deployment; that it ends gives resolv.conf back.
func (n *imageNode) restart(d *deployment) {
	n.t.Helper()
	n.PowerOff()
	if got := n.ReadFile(resolvConf); got != original {
		n.t.Errorf("after a shutdown resolv.conf is\n%s", got)
	}
	n.Deploy(d.Deployment)
	n.boot()
}

// TestImage is the life of a node whose system is an image: installed, upgraded, rolled back, and switched to an image without node-dns and
// back. Its /usr is read-only, its /etc merged, and /var its own.
func TestImage(t *testing.T) {
	n := newImageNode(t)
	own := n.Path("")
	base, first := n.baseImage("base"), n.image("first", "bootc", 1, rpmbuild.Systemd)
	// An image that was built elsewhere, where the user has another id.
	second := n.image("second", "bootc", 2, rpmbuild.Fallback, "useradd --system --no-create-home earlier")

	installed := n.deploy(first, nil)
	n.Deploy(installed.Deployment)
	n.configure(own)
	n.boot()
	n.checkServing("1")
	n.Run("systemctl", "stop", "node-dns.service")
	if got := n.ReadFile(resolvConf); got != original {
		t.Errorf("after stop resolv.conf is\n%s", got)
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
		t.Errorf("after an upgrade what the admin wrote is %q", got)
	}
	if now := n.user(); now == user {
		t.Errorf("the user is the same in both images: %s", now)
	}

	n.restart(installed) // bootc rollback
	n.checkServing("1")

	without := n.deploy(base, installed)
	n.restart(without)
	n.awaitOriginal()
	n.checkBooted()
	if got := n.libc(); got != "192.0.2.1" {
		t.Errorf("in an image without node-dns libc resolves www.up.example to %q", got)
	}

	// With a user of the admin's /etc/passwd is the node's own from now on, and no image adds a user.
	n.Run("useradd", "--no-create-home", "--home-dir=/", "admin")
	n.restart(n.deploy(first, without))
	n.Run("id", "admin")
	n.checkServing("1")
}

// TestImageOfOpenShift: node-dns is in it, and does not run until a MachineConfig says so.
func TestImageOfOpenShift(t *testing.T) {
	n := newImageNode(t)
	c := n.image("rhcos", "machineconfig", 1, rpmbuild.Systemd)
	if got, _ := c.Try("systemctl", "is-enabled", "node-dns.service"); got != "disabled\n" {
		t.Errorf("node-dns.service is %s", got)
	}
}
