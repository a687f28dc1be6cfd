package atomicfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// ErrNotRegular is the error of Open if the path exists but is not a regular file.
var ErrNotRegular = errors.New("expected a regular file")

// Read returns the content of the regular file at path, but at most its first most bytes, and its
// FileInfo. See Open.
func Read(path string, most int64) ([]byte, fs.FileInfo, error) {
	file, info, err := Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, most))
	return data, info, err
}

// Open opens the regular file at path for reading, following links, and returns its FileInfo. For
// any other type it returns an error with the type and does not open it: opening a FIFO blocks
// until a process writes, a device may do more than read, and /dev/zero has no end.
func Open(path string) (*os.File, fs.FileInfo, error) {
	info, err := os.Stat(path)
	if err == nil {
		err = regular(path, info)
	}
	if err != nil {
		return nil, nil, err
	}
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	// It may have been replaced since Stat.
	if info, err = file.Stat(); err == nil {
		err = regular(path, info)
	}
	if err != nil {
		return nil, nil, errors.Join(err, file.Close())
	}
	return file, info, nil
}

func regular(path string, info fs.FileInfo) error {
	if info.Mode().IsRegular() {
		return nil
	}
	return fmt.Errorf("opening %s: %w, got %s", path, ErrNotRegular, kind(info.Mode()))
}

func kind(mode fs.FileMode) string {
	switch mode.Type() {
	case fs.ModeDir:
		return "a directory"
	case fs.ModeNamedPipe:
		return "a FIFO"
	case fs.ModeSocket:
		return "a socket"
	}
	return "a device" // the only other types on Linux after following links
}

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
