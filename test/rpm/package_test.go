// Package rpm tests the result of `make rpm`: the content of the packages, and the effects of their
// scriptlets.
package rpm

import (
	"bufio"
	"bytes"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/node-dns/node-dns/internal/test/golden"
	"github.com/node-dns/node-dns/internal/test/lab"
	"github.com/node-dns/node-dns/internal/test/rpmbuild"
	"github.com/node-dns/node-dns/internal/test/sbomtest"
)

// output returns a program's output; the program must exit 0.
func output(t testing.TB, argv ...string) string {
	t.Helper()
	lab.NeedPrograms(t, argv[0])
	cmd := exec.Command(argv[0], argv[1:]...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s%s", argv, err, out, stderr.String())
	}
	return string(out)
}

// query runs rpm(8) on a package file that is not installed.
func query(t testing.TB, file string, options ...string) string {
	t.Helper()
	return output(t, slices.Concat([]string{"rpm", "--dbpath", filepath.Join(t.TempDir(), "db"), "--query", "--package", file}, options)...)
}

// fileFormat prints one line per file: mode, owner, group, c for %config, n for noreplace, d for
// %doc, g for %ghost, l for %license, path, link.
const fileFormat = `[%{FILEMODES:perms} %{FILEUSERNAME} %{FILEGROUPNAME} %{FILEFLAGS:fflags}|%{FILENAMES}|%{FILELINKTOS}\n]`

// TestFiles: the installed files, their owners, and which of them an upgrade leaves to the admin.
func TestFiles(t *testing.T) {
	p := rpmbuild.Build(t, 1, rpmbuild.Systemd)
	for name, file := range map[string]string{"node-dns": p.Main, "node-dns-selinux": p.SELinux, "cockpit-node-dns": p.Cockpit} {
		// The pages in docs and the examples in contrib may change without a new expected result.
		got := regexp.MustCompile(`(?m)^.*/(docs|contrib)/.*\n`).ReplaceAllString(query(t, file, "--queryformat", fileFormat), "")
		golden.Check(t, filepath.Join("testdata", name+".files"), got)
	}
}

// TestPlaces: an image-based system provides /usr, and an /etc that is merged, but nothing of /var.
// The package's directories there are created at run time (TestImage of test/nspawn), and rpm
// creates none of them.
func TestPlaces(t *testing.T) {
	p := rpmbuild.Build(t, 1, rpmbuild.Systemd)
	for _, file := range []string{p.Main, p.SELinux, p.Cockpit} {
		for line := range strings.Lines(query(t, file, "--queryformat", fileFormat)) {
			before, rest, _ := strings.Cut(line, "|")
			path, _, _ := strings.Cut(rest, "|")
			flags := before[strings.LastIndexByte(before, ' ')+1:]
			brought := strings.HasPrefix(path, "/usr/") && !strings.HasPrefix(path, "/usr/local/") || strings.HasPrefix(path, "/etc/")
			if made := strings.HasPrefix(path, "/var/") && flags == "g"; !brought && !made {
				t.Errorf("an image-based system would lack %s", path)
			}
		}
	}
}

// TestScriptlets checks the scriptlets with systemd's macros and with ours. A macro without a
// definition stays in them literally: rpmbuild accepts that, but sh fails.
func TestScriptlets(t *testing.T) {
	for _, macros := range []rpmbuild.Macros{rpmbuild.Systemd, rpmbuild.Fallback} {
		t.Run(string(macros), func(t *testing.T) {
			p := rpmbuild.Build(t, 1, macros)
			got := query(t, p.Main, "--scripts", "--triggers", "--filetriggers")
			if literal := regexp.MustCompile(`(?m)^\s*%.*`).FindString(got); literal != "" {
				t.Errorf("the scriptlets contain an unexpanded macro: %s", literal)
			}
			golden.Check(t, filepath.Join("testdata", string(macros)+".scriptlets"), got)
			golden.Check(t, filepath.Join("testdata", "selinux.scriptlets"), query(t, p.SELinux, "--scripts", "--triggers", "--filetriggers"))
		})
	}
}

// TestDependencies checks the package's requirements and provides. TestModules covers the bundled
// modules, which differ with each build.
func TestDependencies(t *testing.T) {
	p := rpmbuild.Build(t, 1, rpmbuild.Systemd)
	var got strings.Builder
	for _, kind := range []string{"requires", "provides", "recommends", "suggests", "conflicts", "obsoletes"} {
		for line := range strings.Lines(query(t, p.Main, "--"+kind)) {
			if !strings.HasPrefix(line, "bundled(") && !strings.HasPrefix(line, "rpmlib(") {
				got.WriteString(kind + " " + line)
			}
		}
	}
	golden.Check(t, "testdata/node-dns.dependencies", got.String())
}

// TestModules: the package lists each module that its programs were built from, so that users can
// search for a vulnerable one.
func TestModules(t *testing.T) {
	p := rpmbuild.Build(t, 1, rpmbuild.Systemd)
	var want []string
	for _, program := range extract(t, p.Main) {
		scanner := bufio.NewScanner(strings.NewReader(output(t, "go", "version", "-m", program)))
		for scanner.Scan() {
			if fields := strings.Fields(scanner.Text()); len(fields) > 2 && fields[0] == "dep" {
				version := strings.ReplaceAll(strings.TrimPrefix(fields[2], "v"), "-", "~")
				want = append(want, "bundled(golang("+fields[1]+")) = "+version)
			}
		}
	}
	var got []string
	for line := range strings.Lines(query(t, p.Main, "--provides")) {
		if strings.HasPrefix(line, "bundled(") {
			got = append(got, strings.TrimSpace(line))
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if d := cmp.Diff(slices.Compact(want), got); d != "" {
		t.Errorf("bundled modules (-of the programs +of the package):\n%s", d)
	}
}

// TestSBOM: the bill of materials beside the package has its programs and their modules, and the
// licenses of the modules are those of the package.
func TestSBOM(t *testing.T) {
	p := rpmbuild.Build(t, 1, rpmbuild.Systemd)
	programs := map[string]string{}
	for i, path := range extract(t, p.Main) {
		programs[installed[i]] = path
	}
	sbomtest.Check(t, strings.TrimSuffix(p.Main, ".rpm")+".spdx.json", strings.TrimSpace(query(t, p.Main, "--queryformat", "%{LICENSE}")), programs)
}

// TestLint: rpmlint reports only what packaging/rpm/rpmlint.toml lists with a reason.
func TestLint(t *testing.T) {
	p := rpmbuild.Build(t, 1, rpmbuild.Systemd)
	output(t, "rpmlint", "--strict", "--config", rpmbuild.Root(t)+"/packaging/rpm/rpmlint.toml", p.Main, p.SELinux, p.Cockpit, p.Source)
}
