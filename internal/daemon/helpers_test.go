package daemon

import (
	"os"
	"path/filepath"
	"testing"
)

// write makes a file with its directories; no text, no file.
func write(t testing.TB, path, text string) {
	t.Helper()
	if text == "" {
		return
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
