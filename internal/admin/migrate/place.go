package migrate

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/node-dns/node-dns/internal/sys/atomicfile"
)

// writeStep gives a file a new content. What it was, and which of its directories were not there, is kept.
func writeStep(path, content, why string) Step {
	touches := []string{path}
	for dir := filepath.Dir(path); dir != "/etc" && dir != "/run" && dir != "/"; dir = filepath.Dir(dir) {
		touches = append(touches, dir)
	}
	return Step{Kind: WriteFile, Path: path, Content: content, Touches: touches, What: fmt.Sprintf("write %s: %s", path, why)}
}

// linkStep puts a symbolic link where a file is.
func linkStep(path, target, why string) Step {
	return Step{Kind: MakeLink, Path: path, Content: target, Touches: []string{path}, What: fmt.Sprintf("make %s a link to %s: %s", path, target, why)}
}

// write keeps the mode of a file that is there.
func (s Step) write(root string) error {
	path, mode := filepath.Join(root, s.Path), fs.FileMode(0o644)
	if err := makeDir(filepath.Dir(path)); err != nil {
		return err
	}
	if info, err := os.Stat(path); err == nil {
		mode = info.Mode().Perm()
	}
	_, err := atomicfile.Writer{}.Write(path, []byte(s.Content), mode)
	return err
}

func (s Step) link(root string) error {
	_, err := atomicfile.Writer{}.Symlink(filepath.Join(root, s.Path), s.Content)
	return err
}
