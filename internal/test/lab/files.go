package lab

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// WriteFile gives a file of the machine this content, mode 0644, and makes its directory.
func (l *Lab) WriteFile(path, content string) {
	l.t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		l.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		l.t.Fatal(err)
	}
}

// ReadFile is the content of a file of the machine; "" when there is none.
func (l *Lab) ReadFile(path string) string {
	l.t.Helper()
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		l.t.Fatal(err)
	}
	return string(data)
}
