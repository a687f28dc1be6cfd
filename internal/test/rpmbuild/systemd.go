package rpmbuild

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/node-dns/node-dns/internal/test/lab"
)

// systemdPaths fill in systemd's templates, as its meson.build does on RHEL.
var systemdPaths = map[string]string{
	"ROOTLIBEXECDIR":             "/usr/lib/systemd",
	"SYSTEMD_UPDATE_HELPER_PATH": "/usr/lib/systemd/systemd-update-helper",
	"SYSTEM_DATA_UNIT_DIR":       "/usr/lib/systemd/system",
	"USER_DATA_UNIT_DIR":         "/usr/lib/systemd/user",
	"SYSTEM_PRESET_DIR":          "/usr/lib/systemd/system-preset",
	"USER_PRESET_DIR":            "/usr/lib/systemd/user-preset",
	"UDEV_HWDB_DIR":              "/usr/lib/udev/hwdb.d",
	"UDEV_RULES_DIR":             "/usr/lib/udev/rules.d",
	"SYSTEMD_CATALOG_DIR":        "/usr/lib/systemd/catalog",
	"KERNEL_INSTALL_DIR":         "/usr/lib/kernel/install.d",
	"BINFMT_DIR":                 "/usr/lib/binfmt.d",
	"SYSCTL_DIR":                 "/usr/lib/sysctl.d",
	"SYSUSERS_DIR":               "/usr/lib/sysusers.d",
	"TMPFILES_DIR":               "/usr/lib/tmpfiles.d",
	"USER_TMPFILES_DIR":          "/usr/share/user-tmpfiles.d",
	"ENVIRONMENT_DIR":            "/usr/lib/environment.d",
	"MODULESLOAD_DIR":            "/usr/lib/modules-load.d",
	"MODPROBE_DIR":               "/usr/lib/modprobe.d",
	"SYSTEM_GENERATOR_DIR":       "/usr/lib/systemd/system-generators",
	"USER_GENERATOR_DIR":         "/usr/lib/systemd/user-generators",
	"SYSTEM_ENV_GENERATOR_DIR":   "/usr/lib/systemd/system-environment-generators",
	"USER_ENV_GENERATOR_DIR":     "/usr/lib/systemd/user-environment-generators",
	"UPDATE_HELPER_USER_TIMEOUT": "15",
}

// SystemdPackage returns the path of an RPM that replaces the packages of a RHEL: it has systemd's
// helper, its file triggers and the preset that enables nothing. It owns directories of RHEL's
// filesystem package that other systems lack, and provides what node-dns requires.
func SystemdPackage(t testing.TB) string {
	t.Helper()
	lab.NeedPrograms(t, "rpmbuild")
	helper, triggers := systemdTemplate(t, "systemd-update-helper"), systemdTemplate(t, "triggers.systemd")
	spec := fmt.Sprintf(systemdSpec, triggers)
	dir, err := lab.Cached(spec+helper, func(dir string) error {
		if err := os.WriteFile(filepath.Join(dir, "systemd-update-helper"), []byte(helper), 0o755); err != nil {
			return err
		}
		file := filepath.Join(dir, "systemd.spec")
		if err := os.WriteFile(file, []byte(spec), 0o644); err != nil {
			return err
		}
		return run(exec.Command("rpmbuild", "-bb", "--quiet", "--dbpath", dir+"/db",
			"--define", "_topdir "+dir, "--define", "_sourcedir "+dir, "--define", "_rpmdir "+dir, file))
	})
	if err != nil {
		t.Fatal(err)
	}
	return only(t, filepath.Join(dir, "noarch/systemd-*.rpm"))
}

// systemdSpec packages files of systemd's source tree. Its argument is the file triggers. Those for
// udev belong to a separate package, which is not built.
const systemdSpec = `Name: systemd
Version: 252
Release: 1
Summary: What the packages of a RHEL are to rpm
License: LGPL-2.1-or-later
BuildArch: noarch
Provides: /bin/sh, /usr/bin/env, bash, dbus, shadow-utils, policycoreutils, NetworkManager = 1:1.42
%%description
systemd's helper for scriptlets, its file triggers, and the preset of a RHEL.
%%package udev
Summary: Not built
%%description udev
Not built.
%%install
install -D -m 0755 %%{_sourcedir}/systemd-update-helper %%{buildroot}/usr/lib/systemd/systemd-update-helper
install -d %%{buildroot}/usr/lib/systemd/system-preset
echo 'disable *' >%%{buildroot}/usr/lib/systemd/system-preset/99-default-disable.preset
cd %%{buildroot}
install -d etc/sysconfig usr/share/licenses usr/share/fish/vendor_completions.d usr/share/zsh/site-functions usr/lib/systemd/catalog
%%files
%%dir /etc/sysconfig
%%dir /usr/share/licenses
%%dir /usr/share/fish
%%dir /usr/share/fish/vendor_completions.d
%%dir /usr/share/zsh/site-functions
%%dir /usr/lib/systemd/catalog
/usr/lib/systemd/systemd-update-helper
/usr/lib/systemd/system-preset/99-default-disable.preset
%s`

func systemdMacros(t testing.TB) string {
	t.Helper()
	return systemdTemplate(t, "macros.systemd")
}

func fallbackMacros(t testing.TB) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(Root(t), "packaging/rpm/macros.fallback"))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

var placeholder = regexp.MustCompile(`\{\{(\w+)\}\}`)

// systemdTemplate returns a file of src/rpm in systemd's sources, filled in.
func systemdTemplate(t testing.TB, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(systemdSource(t), name+".in"))
	if err != nil {
		t.Fatal(err)
	}
	return placeholder.ReplaceAllStringFunc(string(data), func(found string) string {
		path, ok := systemdPaths[strings.Trim(found, "{}")]
		if !ok {
			t.Fatalf("%s of systemd has an unknown placeholder: %s", name, found)
		}
		return path
	})
}

// systemdSource returns the directory src/rpm of systemd's sources. Debian has the complete
// sources, and apt checks their signature. Fetch downloads them once.
func systemdSource(t testing.TB) string {
	t.Helper()
	lab.NeedPrograms(t, "apt-get", "tar")
	dir, err := fetchSystemd()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func fetchSystemd() (string, error) {
	return lab.Cached("src/rpm of systemd's source package", func(dir string) error {
		apt := filepath.Join(dir, "apt")
		if err := download(apt); err != nil {
			return err
		}
		archives, err := filepath.Glob(apt + "/systemd_*.orig.tar.*")
		if err != nil || len(archives) != 1 {
			return fmt.Errorf("expected one archive of systemd, found %v, %w", archives, err)
		}
		if err := run(exec.Command("tar", "-C", dir, "-xf", archives[0], "--strip-components=3", "--wildcards", "*/src/rpm/*.in")); err != nil {
			return err
		}
		return os.RemoveAll(apt)
	})
}

// download makes apt download systemd's source package into dir, without changing the machine's
// package lists.
func download(dir string) error {
	parts := filepath.Join(dir, "parts")
	for _, sub := range []string{"lists/partial", "archives/partial", "parts"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			return err
		}
	}
	if err := writeSources(parts); err != nil {
		return err
	}
	options := []string{
		"-q", "-o", "Acquire::Retries=3", "-o", "APT::Sandbox::User=root", "-o", "Dir::Etc::SourceList=/dev/null",
		"-o", "Dir::Etc::SourceParts=" + parts, "-o", "Dir::State::Lists=" + dir + "/lists", "-o", "Dir::Cache=" + dir,
	}
	for _, command := range [][]string{{"update"}, {"source", "--download-only", "systemd"}} {
		cmd := exec.Command("apt-get", append(options, command...)...)
		cmd.Dir = dir
		if err := run(cmd); err != nil {
			return err
		}
	}
	return nil
}

// binaries matches the type for binary packages in both formats of sources.list(5).
var binaries = regexp.MustCompile(`(?m)^(Types:[ \t]*)?deb([ \t].*)?$`)

// writeSources writes the machine's package sources into dir as sources of source packages, which
// it usually lacks.
func writeSources(dir string) error {
	var lists []string
	for _, pattern := range []string{"sources.list", "sources.list.d/*.list", "sources.list.d/*.sources"} {
		found, err := filepath.Glob(filepath.Join("/etc/apt", pattern))
		if err != nil {
			return err
		}
		lists = append(lists, found...)
	}
	for _, list := range lists {
		text, err := os.ReadFile(list)
		if err != nil {
			return err
		}
		name := filepath.Base(list)
		if name == "sources.list" {
			name = "machine.list"
		}
		if err := os.WriteFile(filepath.Join(dir, name), binaries.ReplaceAll(text, []byte("${1}deb-src$2")), 0o644); err != nil {
			return err
		}
	}
	return nil
}
