package lab

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// shipped are the build flags of the Makefile.
var shipped = []string{"-trimpath", "-ldflags=-s -w"}

// build compiles the packages into dir, each under its base name.
func (c config) build(dir string) error {
	if err := os.Chmod(dir, 0o755); err != nil { // for programs that a test runs as another user
		return err
	}
	if !RaceEnabled {
		return goBuild(dir, "CGO_ENABLED=0", shipped, slices.Concat(c.shipped, c.raced))
	}
	return errors.Join(
		goBuild(dir, "CGO_ENABLED=0", shipped, c.shipped),
		goBuild(dir, "CGO_ENABLED=1", []string{"-race"}, c.raced),
	)
}

func goBuild(dir, env string, flags, packages []string) error {
	if len(packages) == 0 {
		return nil
	}
	root, err := moduleRoot()
	if err != nil {
		return err
	}
	cmd := exec.Command("go", slices.Concat([]string{"build", "-o", dir + "/"}, flags, packages)...)
	cmd.Dir, cmd.Env = root, append(os.Environ(), env)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building %s: %w\n%s", strings.Join(packages, " "), err, out)
	}
	return nil
}

// Ship builds a program of the module as it is released, without -race, for tests outside a
// machine, from a TestMain without Main. It panics on an error, because there is no test yet. Call
// remove after the tests.
func Ship(pkg string) (path string, remove func()) {
	dir, err := os.MkdirTemp("", "node-dns-lab-")
	if err == nil {
		err = goBuild(dir, "CGO_ENABLED=0", shipped, []string{pkg})
	}
	if err != nil {
		panic(err)
	}
	return filepath.Join(dir, filepath.Base(pkg)), func() { os.RemoveAll(dir) }
}

// PIE builds a program as the RPM has it: position-independent. The first build compiles all
// packages again, which takes more than a minute of CPU.
func PIE(tb testing.TB, pkg string) (path string) {
	tb.Helper()
	dir := tb.TempDir()
	if err := goBuild(dir, "CGO_ENABLED=0", append([]string{"-buildmode=pie"}, shipped...), []string{pkg}); err != nil {
		tb.Fatal(err)
	}
	return filepath.Join(dir, filepath.Base(pkg))
}

// moduleRoot returns the directory of the go.mod above the working directory, which for a test is
// that of its package.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("finding go.mod: %w", fs.ErrNotExist)
		}
	}
}

// Binary returns the path of a program that Main was asked to build, by its base name.
func Binary(t testing.TB, name string) string {
	t.Helper()
	Need(t)
	path := filepath.Join(os.Getenv(binariesEnv), name)
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("lab.Main did not build %s: %v", name, err)
	}
	if err := readSources(); err != nil {
		t.Fatalf("reading the sources of %s: %v", name, err)
	}
	return path
}

// readSources lists the directories that programs are built from. `go test` records which files a
// test opens, and shows a cached "ok" only if they are unchanged. It cannot know otherwise that the
// tests depend on a program (go help cache).
func readSources() error {
	root, err := moduleRoot()
	if err != nil {
		return err
	}
	for _, dir := range []string{"cmd", "internal"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(_ string, d fs.DirEntry, err error) error {
			if d != nil && d.IsDir() && d.Name() == "testdata" {
				return fs.SkipDir
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}
