package manual

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
