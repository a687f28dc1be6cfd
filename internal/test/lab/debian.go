package lab

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Debian returns the directory of a Debian root file system: a suite such as "bookworm", these
// packages, and no recommended packages. The first call for a suite, packages and version builds
// it, which downloads up to 300 MB, and passes it to prepare (nil: nothing to prepare). version
// identifies what prepare does.
func Debian(suite string, packages []string, version string, prepare func(tree string) error) (string, error) {
	list := strings.Join(packages, ",")
	dir, err := Cached(fmt.Sprintf("root %s %s %s", suite, list, version), func(dir string) error {
		tree := filepath.Join(dir, "root")
		cmd := exec.Command("mmdebstrap", "--quiet", "--variant=apt", `--aptopt=APT::Install-Recommends "false"`,
			`--aptopt=APT::Sandbox::User "root"`, // apt's own user may not enter root's cache directory
			"--include="+list, suite, tree)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, out)
		}
		if prepare == nil {
			return nil
		}
		return prepare(tree)
	})
	return filepath.Join(dir, "root"), err
}

const (
	// rootEnv names the root file system that containers are made of. "/" is this host's own.
	rootEnv = "NODEDNS_ROOT"
	// suiteEnv names the Debian suite of a root that Root builds. Empty: bookworm, which has
	// systemd 252 and NetworkManager 1.42, the series of RHEL 9.
	suiteEnv = "NODEDNS_SUITE"
)

// rootPackages are the packages of a node, and those that the tests use to run commands in it and
// to install RPMs.
var rootPackages = []string{
	"systemd", "systemd-sysv", "dbus", "polkitd", "network-manager", "iproute2", "procps", "e2fsprogs", "bind9-dnsutils",
	"dnsmasq-base", "unbound", "nftables", "iptables", "firewalld", "netbase", "cockpit-ws", "cockpit-bridge", "cockpit-system",
	"rpm", "dnf", "createrepo-c", "ansible-core", "ca-certificates",
}

// Root makes Main build a Debian root for containers, unless NODEDNS_ROOT names another tree. The
// tests then do not depend on what is installed on this host.
func Root() Option {
	return Before(func() error {
		if os.Getenv(rootEnv) != "" {
			return nil
		}
		suite := os.Getenv(suiteEnv)
		if suite == "" {
			suite = "bookworm"
		}
		tree, err := Debian(suite, rootPackages, "", nil)
		if err != nil {
			return fmt.Errorf("building the containers' root: %w", err)
		}
		return os.Setenv(rootEnv, tree)
	})
}
