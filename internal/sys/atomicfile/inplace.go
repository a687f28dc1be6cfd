package atomicfile

import (
	"bytes"
	"cmp"
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// writeInPlace writes a file that cannot be replaced by a rename, because another file system is
// mounted on it or because the disk has no space for a second file. The file keeps its label and
// inode.
//
// The file is not truncated first. Content that is shorter than the old content is padded with line
// feeds to the old length, written in one write, and then truncated. A reader in between, or a
// crash, leaves the new lines and empty lines, never a remainder of old lines.
//
// cause is the reason why no rename was possible. It is returned if path is not an existing regular
// file, because in-place writing cannot help then.
func (w Writer) writeInPlace(path string, data []byte, perm fs.FileMode, cause error) (changed bool, err error) {
	if err := w.check(path); err != nil {
		return false, err
	}
	w.step("inplace-open")
	file, err := os.OpenFile(path, os.O_WRONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return false, errors.Join(cause, err)
	}
	defer func() { err = cmp.Or(err, file.Close()) }()
	info, err := file.Stat()
	if err != nil {
		return false, err
	}
	if !info.Mode().IsRegular() {
		return false, cause
	}
	w.step("inplace-write")
	if _, err := file.WriteAt(padded(data, info.Size()), 0); err != nil {
		return true, err
	}
	w.step("inplace-truncate")
	if err := file.Truncate(int64(len(data))); err != nil {
		return true, err
	}
	w.step("inplace-chmod")
	if info.Mode()&modeBits != perm&modeBits {
		if err := file.Chmod(perm & modeBits); err != nil {
			return true, err
		}
	}
	w.step("inplace-sync")
	return true, file.Sync()
}

// maxPadding limits the memory for padding. The files written here are a few kilobytes long.
const maxPadding = 1 << 20

func padded(data []byte, size int64) []byte {
	missing := min(size-int64(len(data)), maxPadding)
	if missing <= 0 {
		return data
	}
	return append(bytes.Clone(data), bytes.Repeat([]byte{'\n'}, int(missing))...)
}
