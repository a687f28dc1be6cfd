package nspawn

import (
	"os"
	"path/filepath"

	"github.com/node-dns/node-dns/internal/test/lab"
)

// repository is the module's root, relative to this package.
const repository = "../.."

// unitFiles is the directory of the installed units.
const unitFiles = "/usr/lib/systemd/system/"

// hookFile is NetworkManager's hook file.
const hookFile = "/usr/lib/NetworkManager/dispatcher.d/99-origin-dns"

// units are the product's units.
var units = []string{"node-dns.service", "node-dns-apply.service", "node-dns-apply.path", "node-dns-intercept.path", "node-dns-intercept.service", "node-dns@.socket"}

// install copies the product into a machine that is off, like a package: nothing is enabled.
func install(n *node) {
	n.t.Helper()
	const program = "/usr/libexec/node-dns/origin-dns-dispatcher"
	n.CopyFile("/usr/sbin/node-dns", lab.Binary(n.t, "node-dns"), 0o755)
	n.CopyFile(program, lab.Binary(n.t, "origin-dns-dispatcher"), 0o755)
	n.CopyFile("/usr/libexec/node-dns/node-dns-intercept", lab.Binary(n.t, "node-dns-intercept"), 0o755)
	n.CopyFile(hookFile, filepath.Join(repository, "packaging/networkmanager/99-origin-dns"), 0o755)
	if err := os.Symlink(program, n.Path("/usr/sbin/origin-dns-dispatcher")); err != nil {
		n.t.Fatal(err)
	}
	for _, unit := range units {
		n.CopyFile(unitFiles+unit, filepath.Join(repository, "systemd", unit), 0o644)
	}
	n.CopyFile("/usr/share/dbus-1/system.d/node-dns.conf", filepath.Join(repository, "packaging/dbus/node-dns.conf"), 0o644)
	n.CopyFile("/usr/lib/sysusers.d/node-dns.conf", filepath.Join(repository, "packaging/node-dns.sysusers"), 0o644)
	n.CopyFile("/usr/lib/sysctl.d/60-node-dns.conf", filepath.Join(repository, "packaging/node-dns.sysctl"), 0o644)
	n.l.Run("systemd-sysusers", "--root="+n.Path("/"), n.Path("/usr/lib/sysusers.d/node-dns.conf"))
}
