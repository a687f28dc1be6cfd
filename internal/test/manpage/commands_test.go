package manpage

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCommands(t *testing.T) {
	path := filepath.Join(t.TempDir(), "page.md")
	const page = "Text, and `a command`.\n\n```sh\nfirst # why\n\n# a comment\nsecond a#b\n```\n\n```\noutput\n```\n```sh\nthird\n```\n"
	if err := os.WriteFile(path, []byte(page), 0o644); err != nil {
		t.Fatal(err)
	}
	want := [][]string{{"first", "second a#b"}, {"third"}}
	if d := cmp.Diff(want, Commands(t, path)); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

func TestColumn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "page.md")
	const page = "# Page\n\n| x | y |\n|---|---|\n| other | 1 |\n\n## Here\n\nText.\n\n| name | what |\n|---|---|\n| b c | 1 |\n| a | 2 |\n\n| more | what |\n|---|---|\n| d | 3 |\n\n## There\n\n| name |\n|---|\n| e |\n"
	if err := os.WriteFile(path, []byte(page), 0o644); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"a", "b c", "d"}, Column(t, path, "## Here")); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

func TestSections(t *testing.T) {
	path := filepath.Join(t.TempDir(), "page.md")
	const page = "# Title\n\n```sh\nnobody's\n```\n\n## One\n\n```sh\nfirst # why\n```\n\n```\noutput\n```\n\n```yaml\nkey: value\n```\n### Below\n\n## Two\n"
	if err := os.WriteFile(path, []byte(page), 0o644); err != nil {
		t.Fatal(err)
	}
	want := []Section{{Title: "One", Blocks: []Block{{Commands: []string{"first"}}, {Screen: "output\n"}}}, {Title: "Two"}}
	if d := cmp.Diff(want, Sections(t, path)); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}
