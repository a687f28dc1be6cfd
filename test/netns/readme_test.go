package netns

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/node-dns/node-dns/internal/test/lab"
	"github.com/node-dns/node-dns/internal/test/manpage"
)

// TestReadme runs the README's demo. test/nspawn runs the commands for installation and removal.
func TestReadme(t *testing.T) {
	lab.New(t)
	const demo = "go run ./cmd/node-dns demo"
	if !slices.ContainsFunc(blocks(t, readme), func(block []string) bool { return slices.Equal(block, []string{demo}) }) {
		t.Fatalf("the README has no block %q", demo)
	}
	checkScreen(t, newShell(t, "../..", goEnvironment(t)...).run(demo))
}

// goEnvironment makes go build work as in the Makefile, with the caches of these tests: packages
// are not compiled again, and there is no network to download them.
func goEnvironment(t *testing.T) []string {
	t.Helper()
	lab.Need(t, "go", "make")
	program, err := exec.LookPath("go")
	if err != nil {
		t.Fatal(err)
	}
	caches, err := exec.Command(program, "env", "GOCACHE", "GOMODCACHE").Output()
	directories := strings.Split(string(caches), "\n")
	if err != nil || len(directories) != 3 {
		t.Fatalf("go env: %v\n%s", err, caches)
	}
	return []string{
		"PATH=" + lab.Path + ":" + filepath.Dir(program), "GOCACHE=" + directories[0], "GOMODCACHE=" + directories[1],
		"CGO_ENABLED=0", "GOFLAGS=-trimpath",
	}
}

// varies matches what differs between demos.
var varies = regexp.MustCompile(`running \d+s|node \S+|:\d{4,5}|\d+(\.\d\d)?ms`)

// checkScreen: the output at the beginning of the first tutorial is the demo's, except for varying
// parts and notes about the machine.
func checkScreen(t *testing.T, printed string) {
	t.Helper()
	screen := ""
	for _, s := range manpage.Sections(t, "../../"+firstNode) {
		for _, b := range s.Blocks {
			screen += b.Screen
		}
	}
	_, printed, _ = strings.Cut(printed, "== node-dns status\n")
	var shown strings.Builder
	for line := range strings.Lines(printed) {
		line, ok := strings.CutPrefix(line, "      | ")
		if !ok {
			break
		}
		if !strings.HasPrefix(line, "  ") || strings.HasPrefix(line, "     ") {
			shown.WriteString(line)
		}
	}
	want, got := varies.ReplaceAllString(screen, "…"), varies.ReplaceAllString(shown.String(), "…")
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("the screen of "+firstNode+" is not the demo's (-page +demo):\n%s", d)
	}
}
