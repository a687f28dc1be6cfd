package rpmbuild

import (
	"path"
	"path/filepath"
	"testing"

	"github.com/node-dns/node-dns/internal/test/lab"
)

// repository is the directory of packages in a container.
const repository = "/srv/rpm"

// Prepare gives a running container an RPM database with the packages of a RHEL, and the settings
// that dnf(8) lacks elsewhere. Call it before installing any other package.
func Prepare(t testing.TB, c *lab.Container) {
	t.Helper()
	lab.NeedPrograms(t, "rpm")
	c.WriteFile("/etc/rpm/macros", "%_dbpath /var/lib/rpm\n", 0o644)
	c.WriteFile("/etc/dnf/vars/releasever", "9\n", 0o644)
	c.Run("rpm", "--install", Put(c, SystemdPackage(t)))
}

// Put copies a package into a container and returns its path there.
func Put(c *lab.Container, file string) string {
	to := path.Join(repository, filepath.Base(file))
	c.CopyFile(to, file, 0o644)
	return to
}

// Publish makes a dnf repository of packages in the container. It replaces that of an earlier call.
func Publish(t testing.TB, c *lab.Container, files ...string) {
	t.Helper()
	lab.NeedPrograms(t, "dnf", "createrepo_c")
	c.Run("rm", "-rf", repository)
	for _, f := range files {
		Put(c, f)
	}
	c.Run("createrepo_c", "--quiet", repository)
	c.WriteFile("/etc/yum.repos.d/node-dns.repo",
		"[node-dns]\nname=node-dns\nbaseurl=file://"+repository+"\ngpgcheck=0\nmetadata_expire=0\n", 0o644)
}
