package lab

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// WriteFile writes a file of the machine with mode 0644 and makes its directory.
func (l *Lab) WriteFile(path, content string) {
	l.t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		l.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		l.t.Fatal(err)
	}
}

// ReadFile returns the content of a file of the machine, or "" if it does not exist.
func (l *Lab) ReadFile(path string) string {
	l.t.Helper()
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		l.t.Fatal(err)
	}
	return string(data)
}
