package migrate

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// TestLock proves that a second concurrent migration does not start, that a later one does, and
// that the lock file is removed.
func TestLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	for range 2 {
		unlock, err := Lock(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Lock(t.Context(), path); err == nil {
			t.Error("got two concurrent migrations")
		}
		unlock()
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the lock file remains: %v", err)
		}
	}
}
