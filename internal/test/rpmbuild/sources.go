package rpmbuild

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// notSource are directories that are not part of a package.
var notSource = []string{".git", "bin", "dist", "testdata"}

// Sources returns a digest of all files of the tree except test files. Because it opens them, `go
// test` runs the test again when one has changed.
func Sources(t testing.TB, root string) string {
	t.Helper()
	digest := sha256.New()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && slices.Contains(notSource, d.Name()) {
			return fs.SkipDir
		}
		relative, err := filepath.Rel(root, path)
		if err != nil || !d.Type().IsRegular() || strings.HasSuffix(path, "_test.go") {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		fmt.Fprintf(digest, "%s\n", relative)
		_, err = io.Copy(digest, f)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return hex.EncodeToString(digest.Sum(nil))
}
