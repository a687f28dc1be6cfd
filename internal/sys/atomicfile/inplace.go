package atomicfile

import (
	"bytes"
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// writeInPlace is for a path that no rename can replace: another mount is on it,
// or the disk has no room for a second file.
// Its label and inode stay.
//
// The file is not truncated first. Content that is shorter than what it
// replaces is written with line feeds up to the old length, in one write, and
// then cut: who reads in between, and a process killed there, meets the new
// lines and empty ones, never a remainder of old lines.
//
// cause is why there was no rename; it is returned when path is no existing
// regular file, which in-place writing could not help.
func (w Writer) writeInPlace(path string, data []byte, perm fs.FileMode, cause error) (changed bool, err error) {
	w.step("inplace-open")
	file, err := os.OpenFile(path, os.O_WRONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return false, errors.Join(cause, err)
	}
	defer func() {
		if closeErr := file.Close(); err == nil {
			err = closeErr
		}
	}()
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

// maxPadding bounds what the padding may take in memory; the files written here
// are a few kilobytes long.
const maxPadding = 1 << 20

func padded(data []byte, size int64) []byte {
	missing := min(size-int64(len(data)), maxPadding)
	if missing <= 0 {
		return data
	}
	return append(bytes.Clone(data), bytes.Repeat([]byte{'\n'}, int(missing))...)
}
