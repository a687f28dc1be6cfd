package atomicfile

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// Symlink atomically makes path a symbolic link to target, replacing any file or link, and reports
// whether anything changed. It does not touch a link that already has this target. A mount point at
// path cannot be replaced (EBUSY).
func (w Writer) Symlink(path, target string) (changed bool, err error) {
	defer func() { err = wrap("linking", path, err) }()
	temp := tempName(path)
	if err := w.removeLeftover(temp); err != nil {
		return false, err
	}
	if present, err := os.Readlink(path); err == nil && present == target {
		return false, nil
	}
	if err := w.createLink(temp, path, target); err != nil {
		return false, errors.Join(err, w.removeLeftover(temp))
	}
	return true, w.syncDir(path)
}

func (w Writer) createLink(temp, path, target string) error {
	w.step("symlink")
	if err := os.Symlink(target, temp); err != nil {
		return err
	}
	w.step("label")
	if err := copyLabel(path, temp); err != nil {
		return err
	}
	return w.rename(temp, path)
}

// Remove removes the file or link at path and reports whether it existed. It fails for directories.
func (w Writer) Remove(path string) (changed bool, err error) {
	defer func() { err = wrap("removing", path, err) }()
	if err := w.removeLeftover(tempName(path)); err != nil {
		return false, err
	}
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	w.step("remove")
	// os.Remove would also remove an empty directory.
	if err := unix.Unlink(path); err != nil {
		return false, err
	}
	return true, w.syncDir(path)
}

// Sweep removes the temporary file that a killed run left for path, if there is one. Write, Symlink
// and Remove do so for their own paths.
func (w Writer) Sweep(path string) error {
	return wrap("removing the temporary file of", path, w.removeLeftover(tempName(path)))
}
