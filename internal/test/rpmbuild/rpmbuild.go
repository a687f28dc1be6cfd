// Package rpmbuild makes the RPMs that tests inspect and install: those of node-dns, with
// packaging/rpm/build, and one that stands for the systemd of RHEL, with systemd's own macros and
// file triggers, on a machine whose systemd is not from an RPM.
package rpmbuild

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/node-dns/node-dns/internal/test/lab"
)

// Version is the version of every node-dns that Build makes, and Revision its commit. They are
// fixed, so that a build serves all commits with the same sources.
const (
	Version  = "1.0.0"
	Revision = "0123456789abcdef0123456789abcdef01234567"
)

// OldLayout is the release number of a package with the old layout, in which the hook's program was
// itself NetworkManager's dispatcher script.
const OldLayout = 0

// restoreOldLayout undoes the move of the program to /usr/libexec.
func restoreOldLayout(tree string) error {
	const (
		program = "$(DESTDIR)$(LIBEXECDIR)/node-dns/origin-dns-dispatcher"
		entry   = "$(DESTDIR)$(LIBDIR)/NetworkManager/dispatcher.d/99-origin-dns"
	)
	return errors.Join(
		replace(filepath.Join(tree, "Makefile"),
			"\t$(PUT) 0755 packaging/networkmanager/99-origin-dns "+entry+"\n", "",
			"bin/origin-dns-dispatcher "+program, "bin/origin-dns-dispatcher "+entry,
			"ln -sf ../libexec/node-dns/origin-dns-dispatcher", "ln -sf ../lib/NetworkManager/dispatcher.d/99-origin-dns"),
		replace(filepath.Join(tree, "packaging/rpm/node-dns.spec"), "%{_libexecdir}/node-dns\n", "%{_libexecdir}/node-dns/node-dns-intercept\n"),
	)
}

// replace replaces each string in a file, which must occur there, with the one after it.
func replace(file string, pairs ...string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	text := string(data)
	for pair := range slices.Chunk(pairs, 2) {
		if !strings.Contains(text, pair[0]) {
			return fmt.Errorf("%s has no text %q", file, pair[0])
		}
		text = strings.Replace(text, pair[0], pair[1], 1)
	}
	return os.WriteFile(file, []byte(text), 0o644)
}

// Macros selects the scriptlets of a package.
type Macros string

const (
	// Systemd selects systemd's own macros, as on RHEL 9 and later.
	Systemd Macros = "systemd"
	// Fallback selects those of packaging/rpm/macros.fallback, used when a package is built without
	// systemd's macros.
	Fallback Macros = "fallback"
)

// Packages are the paths of the packages of one build.
type Packages struct {
	Main, SELinux, Cockpit, Source string
}

// Fetch downloads what Build and SystemdPackage need: Go modules that the package needs but the
// tests' programs do not, those of the programs in packaging, and systemd's sources. Without it
// they need network access; see lab.Before. The tests are two directories below the module's root.
func Fetch() error {
	if _, err := fetchSystemd(); err != nil {
		return fmt.Errorf("loading the sources of systemd: %w", err)
	}
	dir, err := os.MkdirTemp("", "node-dns-vendor-")
	if err != nil {
		return err
	}
	return errors.Join(
		run(exec.Command("go", "mod", "vendor", "-o", dir+"/vendor")),
		run(exec.Command("go", "-C", "../../packaging", "build", "-o", dir+"/", "./...")),
		os.RemoveAll(dir),
	)
}

// Make runs a target of the Makefile of a source tree, at a fixed date, and returns the directory
// with its results. Each of the variables is a word such as VERSION=1.0.0.
func Make(t testing.TB, tree, target string, variables ...string) (dist string) {
	t.Helper()
	dist = t.TempDir()
	cmd := exec.Command("make", append([]string{"-C", tree, target, "DIST=" + dist}, variables...)...)
	cmd.Env = append(os.Environ(), "SOURCE_DATE_EPOCH=1800000000")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
	}
	return dist
}

// Build makes packages of the current tree with this release number. From release 2 on, their
// configuration files have an additional line. It reuses earlier builds, including those of other
// tests.
func Build(t testing.TB, release int, macros Macros) Packages {
	t.Helper()
	lab.NeedPrograms(t, "rpmbuild", "rpm2cpio", "cpio", "go", "make")
	text := fallbackMacros(t)
	if macros == Systemd {
		text += "\n" + systemdMacros(t)
	}
	root := Root(t)
	key := fmt.Sprintf("node-dns %d %s %s %s", release, Revision, text, Sources(t, root))
	dir, err := lab.Cached(key, func(dir string) error {
		file := filepath.Join(dir, "macros")
		// A fast compression: these packages are not kept.
		if err := os.WriteFile(file, []byte(text+"\n%_binary_payload w1.gzdio\n"), 0o644); err != nil {
			return err
		}
		tree := root
		if release != 1 {
			tree = filepath.Join(dir, "tree")
			if err := changedTree(tree, root, release); err != nil {
				return err
			}
		}
		cmd := exec.Command(filepath.Join(tree, "packaging/rpm/build"))
		cmd.Env = append(os.Environ(), "DIST="+dir, "MACROS="+file, "VERSION="+Version, "REVISION="+Revision, "RELEASE="+strconv.Itoa(release))
		return errors.Join(run(cmd), os.RemoveAll(filepath.Join(dir, "tree")))
	})
	if err != nil {
		t.Fatal(err)
	}
	name := Version + "-" + strconv.Itoa(release)
	return Packages{
		Main:    only(t, filepath.Join(dir, "node-dns-"+name+".*[^c].rpm")),
		SELinux: only(t, filepath.Join(dir, "node-dns-selinux-"+name+".noarch.rpm")),
		Cockpit: only(t, filepath.Join(dir, "cockpit-node-dns-"+name+".noarch.rpm")),
		Source:  only(t, filepath.Join(dir, "node-dns-"+name+".src.rpm")),
	}
}

// changedTree copies the module and changes it into the source of a release other than 1.
func changedTree(to, root string, release int) error {
	if err := CopyTree(to, root); err != nil {
		return err
	}
	if release == OldLayout {
		return restoreOldLayout(to)
	}
	for _, file := range []string{"packaging/node-dns.yaml", "packaging/node-dns.sysconfig"} {
		f, err := os.OpenFile(filepath.Join(to, file), os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		_, err = f.WriteString("# new\n")
		if err := errors.Join(err, f.Close()); err != nil {
			return err
		}
	}
	return nil
}

// CopyTree copies the module at root into a new directory, as if unpacked from a tarball, so that
// builds do not change the tested tree. The copy is not a git repository.
func CopyTree(to, root string) error {
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	copying := exec.Command("sh", "-c", `tar --exclude=./.git --exclude=./bin --exclude=./dist -cf - . | tar -C "$0" -xf -`, to)
	copying.Dir = root
	return run(copying)
}

// MacroPath returns the value of rpmbuild's --macros for a source package of Build.
func MacroPath(t testing.TB, p Packages) string {
	t.Helper()
	out, err := exec.Command("rpm", "--showrc").Output()
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(out), "\nMacro path: ")
	path, _, ok := strings.Cut(rest, "\n")
	if !ok {
		t.Fatal("rpm --showrc does not tell the macro path")
	}
	return path + ":" + filepath.Join(filepath.Dir(p.Source), "macros")
}

// Root returns the directory of the module.
func Root(t testing.TB) string {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(root, "packaging/rpm/build")); err != nil {
		t.Fatalf("this is for tests two directories below the module's root: %v", err)
	}
	return root
}

// only returns the single path that matches the pattern.
func only(t testing.TB, pattern string) string {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	if err != nil || len(paths) != 1 {
		t.Fatalf("expected one file %s, found %v, %v", pattern, paths, err)
	}
	return paths[0]
}

func run(cmd *exec.Cmd) error {
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("running %v: %w\n%s", cmd.Args, err, out)
	}
	return nil
}
