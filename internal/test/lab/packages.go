package lab

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// packageEnv plus a package's name is the environment variable with the directory of the fetched
// files.
const packageEnv = "NODEDNS_LAB_PACKAGE_"

// Packages makes Main fetch Debian packages for Container.Install, with dependencies that the
// containers' root lacks. The host's own root is not changed.
func Packages(names ...string) Option {
	return Before(func() error {
		var errs []error
		for _, name := range names {
			dir, err := fetchPackage(name)
			errs = append(errs, err, os.Setenv(packageEnv+name, dir))
		}
		return errors.Join(errs...)
	})
}

// fetchPackage returns a directory with the package and its dependencies.
func fetchPackage(name string) (string, error) {
	root := cmp.Or(os.Getenv(rootEnv), "/")
	status, err := os.ReadFile(filepath.Join(root, "/var/lib/dpkg/status"))
	if err != nil {
		return "", fmt.Errorf("fetching %s: %w", name, err)
	}
	return Cached("package "+name+" for "+root+"\n"+string(status), func(dir string) error {
		apt := func(argv ...string) error {
			options := []string{
				"--quiet", "--option=Dir=" + root, "--option=Dir::State::status=" + filepath.Join(root, "/var/lib/dpkg/status"),
				"--option=Dir::Cache::archives=" + dir, "--option=Debug::NoLocking=true", "--option=APT::Sandbox::User=root",
			}
			cmd := exec.Command("apt-get", append(options, argv...)...)
			if out, err := cmd.CombinedOutput(); err != nil {
				return fmt.Errorf("fetching %s: %w\n%s", name, err, out)
			}
			return nil
		}
		install := []string{"install", "--yes", "--no-install-recommends", "--reinstall", "--download-only", name}
		if err := os.MkdirAll(filepath.Join(dir, "partial"), 0o755); err != nil {
			return err
		}
		if apt(install...) == nil {
			return nil
		}
		if err := apt("update"); err != nil { // its lists are missing or outdated
			return err
		}
		return apt(install...)
	})
}

// Install installs a package of Packages in the running machine. The package's scripts enable and
// start its units. apt decides the order of the packages.
func (c *Container) Install(name string) {
	c.l.t.Helper()
	files := packageFiles(c.l.t, name)
	argv := []string{
		"env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "--quiet", "--yes", "--no-install-recommends", "--reinstall", "--allow-downgrades",
		// Disable its sources: it would first try to fetch the package there, for ten seconds,
		// without success.
		"--option=Dir::Etc::SourceList=/dev/null", "--option=Dir::Etc::SourceParts=/dev/null",
		"--option=Dpkg::Use-Pty=false", "--option=Dpkg::Options::=--force-confmiss", "--option=APT::Sandbox::User=root", "install",
	}
	for _, file := range files {
		to := filepath.Join("/srv/deb", filepath.Base(file))
		c.CopyFile(to, file, 0o644)
		argv = append(argv, to)
	}
	c.Run(argv...)
	c.Run("rm", "-r", "/srv/deb")
}

// Unmask allows a unit to start that test machines mask.
func (c *Container) Unmask(unit string) {
	c.l.t.Helper()
	if err := os.Remove(c.Path("/etc/systemd/system/" + unit)); err != nil {
		c.l.t.Fatal(err)
	}
	if c.leader != 0 {
		c.Run("systemctl", "daemon-reload")
	}
}

func packageFiles(t testing.TB, name string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(os.Getenv(packageEnv+name), "*.deb"))
	if err != nil || len(files) == 0 {
		Skip(t, "needs the Debian package %s, which could not be fetched (lab.Packages)", name)
	}
	return files
}
