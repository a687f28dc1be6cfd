package migrate

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// TestLock: a second migration does not begin, one that comes later does, and no lock is left behind.
func TestLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	for range 2 {
		unlock, err := Lock(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Lock(t.Context(), path); err == nil {
			t.Error("two migrations at a time")
		}
		unlock()
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the lock is left: %v", err)
		}
	}
}
