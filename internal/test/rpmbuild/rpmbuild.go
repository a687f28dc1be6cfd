// Package rpmbuild makes the RPMs that tests look into and install: those of node-dns, by packaging/rpm/build, and one that plays the
// systemd of a RHEL, with systemd's own macros and file triggers, on a machine that has its systemd from elsewhere.
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

// Version is the version of every node-dns that Build makes, and Revision the commit that it is said to be of: a build serves all commits
// that have the same sources.
const (
	Version  = "1.0.0"
	Revision = "0123456789abcdef0123456789abcdef01234567"
)

// OldLayout is the release number of a package as it was laid out when the hook's program was NetworkManager's entry itself.
const OldLayout = 0

// layOutAsBefore undoes the move of the program to /usr/libexec.
func layOutAsBefore(tree string) error {
	const (
		program = "$(DESTDIR)$(LIBEXECDIR)/node-dns/origin-dns-dispatcher"
		entry   = "$(DESTDIR)$(LIBDIR)/NetworkManager/dispatcher.d/99-origin-dns"
	)
	return errors.Join(
		replace(filepath.Join(tree, "Makefile"),
			"\t$(PUT) 0755 packaging/networkmanager/99-origin-dns "+entry+"\n", "",
			"bin/origin-dns-dispatcher "+program, "bin/origin-dns-dispatcher "+entry,
			"ln -sf ../libexec/node-dns/origin-dns-dispatcher", "ln -sf ../lib/NetworkManager/dispatcher.d/99-origin-dns"),
		replace(filepath.Join(tree, "packaging/rpm/node-dns.spec"), "%{_libexecdir}/node-dns\n", ""),
	)
}

// replace replaces each text of a file, which must be there, by the one after it.
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

// Macros say whose scriptlets a package has.
type Macros string

const (
	// Systemd are systemd's own, as on RHEL 9 and later.
	Systemd Macros = "systemd"
	// Fallback are those of packaging/rpm/macros.fallback: of a package that was built where there are none.
	Fallback Macros = "fallback"
)

// Packages are the files of one build, by path.
type Packages struct {
	Main, SELinux, Cockpit, Source string
}

// Fetch loads what Build and SystemdPackage need from elsewhere: the modules that are in the package and not in the tests' programs, and
// systemd's sources. Without it they want a network; see lab.Before.
func Fetch() error {
	if _, err := fetchSystemd(); err != nil {
		return fmt.Errorf("loading the sources of systemd: %w", err)
	}
	dir, err := os.MkdirTemp("", "node-dns-vendor-")
	if err != nil {
		return err
	}
	return errors.Join(run(exec.Command("go", "mod", "vendor", "-o", dir+"/vendor")), os.RemoveAll(dir))
}

// Build makes the packages of the tree as it is, with this release number. From release 2 on their configuration files have a line more
// than those of release 1. What was built before, by whichever test, is not built again.
func Build(t testing.TB, release int, macros Macros) Packages {
	t.Helper()
	lab.NeedPrograms(t, "rpmbuild", "go", "make")
	text := fallbackMacros(t)
	if macros == Systemd {
		text += "\n" + systemdMacros(t)
	}
	root := Root(t)
	key := fmt.Sprintf("node-dns %d %s %s %s", release, Revision, text, sources(t, root))
	dir, err := lab.Cached(key, func(dir string) error {
		file := filepath.Join(dir, "macros")
		// A quick compression: nobody keeps these packages.
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

// changedTree copies the module and makes it the source of another release than 1.
func changedTree(to, root string, release int) error {
	if err := CopyTree(to, root); err != nil {
		return err
	}
	if release == OldLayout {
		return layOutAsBefore(to)
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

// CopyTree copies the module at root into a new directory, as an unpacked tarball: what is built there does not reach the tree that is
// tested. The copy is no repository of git.
func CopyTree(to, root string) error {
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	copying := exec.Command("sh", "-c", `tar --exclude=./.git --exclude=./bin --exclude=./dist -cf - . | tar -C "$0" -xf -`, to)
	copying.Dir = root
	return run(copying)
}

// MacroPath is what rpmbuild's --macros has to be for a source package of Build.
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

// Root is the directory of the module.
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

// only is the one path that the pattern stands for.
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
