package nodedns_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// release is the version in the file VERSION.
func release(t *testing.T) string {
	t.Helper()
	version := strings.TrimSpace(readText(t, "VERSION"))
	if !regexp.MustCompile(`^\d+\.\d+\.\d+(~rc\d+)?$`).MatchString(version) {
		t.Fatalf("VERSION has %q, expected a version such as 1.2.3 or 1.2.3~rc1", version)
	}
	return version
}

// TestVersion: the programs, the RPM, the image, the plugin of kubectl, the chart and CHANGELOG.md
// have the version of the file VERSION.
func TestVersion(t *testing.T) {
	version := release(t)
	if found := regexp.MustCompile(`(?m)^## \[(\d[^]]*)\]`).FindStringSubmatch(readText(t, "CHANGELOG.md")); found == nil || found[1] != version {
		t.Errorf("the first version of CHANGELOG.md is %q, expected %s", found, version)
	}
	printed := output(t, ".", "./scripts/version")
	if rest, ok := strings.CutPrefix(printed, version); !ok || !regexp.MustCompile(`^([.~]\d+\.g[0-9a-f]+)?$`).MatchString(rest) {
		t.Errorf("scripts/version prints %q, expected %s, or it with a number of commits and a commit", printed, version)
	}
	if build := output(t, ".", "make", "--no-print-directory", "--dry-run", "build"); !strings.Contains(build, "-X main.version="+printed+"'") {
		t.Errorf("make build does not set main.version to %s:\n%s", printed, build)
	}
	if source := readText(t, "packaging/source"); !strings.Contains(source, `"${VERSION:=$(./scripts/version)}"`) {
		t.Error("packaging/source does not take the version of scripts/version")
	}
	for _, build := range []string{"packaging/rpm/build", "packaging/image/build", "packaging/krew/build"} {
		if !strings.Contains(readText(t, build), "\n. ./packaging/source\n") {
			t.Errorf("%s does not source packaging/source", build)
		}
	}
	if spec := readText(t, "packaging/rpm/node-dns.spec"); !strings.Contains(spec, "-X main.version=%{version}-%{release} ") {
		t.Error("the RPM's programs do not have its version")
	}
	// Neither SemVer nor an image's tag allows "~".
	for _, key := range []string{"version", "appVersion"} {
		if line := "\n" + key + ": " + strings.ReplaceAll(version, "~", "-") + "\n"; !strings.Contains(readText(t, "charts/node-dns/Chart.yaml"), line) {
			t.Errorf("charts/node-dns/Chart.yaml does not have the line %q", line)
		}
	}
}

// TestVersionOfCommit shows what scripts/version prints before the tag, at it, after it, and
// without git.
func TestVersionOfCommit(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "scripts"), os.DirFS("scripts")); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(dir, "scripts/version"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "VERSION"), []byte("1.2.3~rc1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	check := func(want string) {
		t.Helper()
		if got := output(t, dir, "./scripts/version"); !regexp.MustCompile("^" + want + "$").MatchString(got) {
			t.Errorf("scripts/version prints %q, expected %s", got, want)
		}
	}
	git := func(args ...string) {
		t.Helper()
		output(t, dir, "git", append([]string{"-c", "user.name=test", "-c", "user.email=test@example.com", "-c", "init.defaultBranch=main"}, args...)...)
	}
	check(`1\.2\.3~rc1`)
	git("init", "--quiet")
	check(`1\.2\.3~rc1`)
	git("commit", "--quiet", "--allow-empty", "--message=one")
	check(`1\.2\.3~rc1~1\.g[0-9a-f]+`)
	git("tag", "v1.2.3-rc1")
	check(`1\.2\.3~rc1`)
	git("commit", "--quiet", "--allow-empty", "--message=two")
	check(`1\.2\.3~rc1\.1\.g[0-9a-f]+`)
}

// TestReleaseNotes: scripts/release-notes prints a version's section of CHANGELOG.md, and fails for
// an unknown version.
func TestReleaseNotes(t *testing.T) {
	version := release(t)
	notes := output(t, ".", "./scripts/release-notes", "v"+version)
	_, section, _ := strings.Cut(readText(t, "CHANGELOG.md"), "\n## ["+version+"]")
	_, section, _ = strings.Cut(section, "\n")
	section, _, _ = strings.Cut(section, "\n## ")
	section, _, _ = strings.Cut(section, "\n[")
	if strings.TrimSpace(section) != notes || notes == "" {
		t.Errorf("the release notes are\n%s\nexpected\n%s", notes, section)
	}
	for _, args := range [][]string{nil, {"99.0.0"}} {
		if out, err := exec.Command("./scripts/release-notes", args...).Output(); err == nil || len(out) > 0 {
			t.Errorf("scripts/release-notes %q: %v, printed %q", args, err, out)
		}
	}
}

// output returns the output of a command run in a directory, without the final newline.
func output(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %q: %v", name, args, err)
	}
	return strings.TrimSpace(string(out))
}
