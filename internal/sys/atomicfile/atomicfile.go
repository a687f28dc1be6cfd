// Package atomicfile replaces files atomically. A reader, or a crash during the write, sees either
// the old or the new content, never a mixture.
//
// The package knows nothing about DNS or the contents of files. It deals only with what the kernel
// guarantees for rename(2), fsync(2), bind mounts and SELinux labels.
package atomicfile

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// A Writer changes files. The zero Writer is ready for use. Its methods may be called concurrently
// for different paths. For one path the caller must hold a lock, because the temporary file has a
// fixed name.
type Writer struct {
	// Step, if not nil, is called with the name of each step before the step is done. Tests use it
	// to kill the process there.
	Step func(step string)
	// Check, if not nil, is called just before a file or link at path is replaced, or a file is
	// written in place. Its error leaves path unchanged.
	Check func(path string) error
}

// modeBits are the mode bits that Write sets and compares.
const modeBits = fs.ModePerm | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky

// Write gives the file at path this content and mode, regardless of the umask, and reports whether
// anything changed. It does not touch a regular file that already has both. Otherwise it writes a
// temporary file in the same directory, gives it the SELinux label of the file that it replaces,
// syncs it to disk, and renames it to path. A symlink at path is itself replaced. A new file gets
// the label that the policy defines for that directory.
//
// Some files cannot be replaced and are written in place: a mount point (EBUSY, EXDEV), or a
// writable file in a directory on a read-only file system (EROFS; also a bind mount). If the disk
// is full (ENOSPC, EDQUOT), a file that is long enough already is written in place too, because a
// full disk must not leave a node with a dead nameserver.
//
// The directory must exist. If Write returns an error, path is unchanged, unless the error occurred
// during the in-place write or after the replacement; then changed is true.
func (w Writer) Write(path string, data []byte, perm fs.FileMode) (changed bool, err error) {
	return w.WriteOwned(path, data, perm, 0)
}

// WriteOwned is like Write but also sets the owner of the file; 0 means the user of this process. A
// file that is written in place keeps its owner.
func (w Writer) WriteOwned(path string, data []byte, perm fs.FileMode, owner int) (changed bool, err error) {
	defer func() { err = wrap("writing", path, err) }()
	temp := tempName(path)
	if err := w.removeLeftover(temp); err != nil {
		return false, err
	}
	if same(path, data, perm) && isOwners(path, owner) {
		return false, nil
	}
	err = w.create(temp, path, data, perm, owner)
	if errors.Is(err, unix.EROFS) {
		return w.writeInPlace(path, data, perm, err)
	}
	if err == nil {
		err = w.rename(temp, path)
	}
	if errors.Is(err, unix.EBUSY) || errors.Is(err, unix.EXDEV) {
		changed, err = w.writeInPlace(path, data, perm, err)
		return changed, errors.Join(err, w.removeLeftover(temp))
	}
	if isFull(err) {
		if leftErr := w.removeLeftover(temp); leftErr != nil || !isAsLong(path, data) {
			return false, errors.Join(err, leftErr)
		}
		return w.writeInPlace(path, data, perm, err)
	}
	if err != nil {
		return false, errors.Join(err, w.removeLeftover(temp))
	}
	return true, w.syncDir(path)
}

// same reports whether path is a regular file with this content and mode.
func same(path string, data []byte, perm fs.FileMode) bool {
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() ||
		info.Mode()&modeBits != perm&modeBits || info.Size() != int64(len(data)) {
		return false
	}
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	defer file.Close()
	// One extra byte detects a file that grew since Lstat.
	present, err := io.ReadAll(io.LimitReader(file, int64(len(data))+1))
	return err == nil && bytes.Equal(present, data)
}

// isFull reports whether err means that the disk or the quota is full.
func isFull(err error) bool { return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) }

// isAsLong reports whether path is a regular file at least as long as data.
func isAsLong(path string, data []byte) bool {
	info, err := os.Lstat(path)
	return err == nil && info.Mode().IsRegular() && info.Size() >= int64(len(data))
}

// isOwners reports whether the user owns the file at path; 0 matches any owner.
func isOwners(path string, owner int) bool {
	var stat unix.Stat_t
	return unix.Lstat(path, &stat) == nil && (owner == 0 || int(stat.Uid) == owner)
}

// create creates the complete temporary file. On failure the caller removes it.
func (w Writer) create(temp, path string, data []byte, perm fs.FileMode, owner int) (err error) {
	w.step("create")
	file, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, file.Close()) }()
	w.step("chmod")
	if err := file.Chmod(perm & modeBits); err != nil {
		return err
	}
	w.step("label")
	if err := copyLabel(path, temp); err != nil {
		return err
	}
	w.step("write")
	if _, err := file.Write(data); err != nil {
		return err
	}
	if owner != 0 { // last, because root without CAP_FOWNER cannot change the mode of another user's file
		w.step("chown")
		if err := file.Chown(owner, -1); err != nil {
			return err
		}
	}
	w.step("sync")
	return file.Sync()
}

func (w Writer) rename(temp, path string) error {
	w.step("rename")
	if err := w.check(path); err != nil {
		return err
	}
	return os.Rename(temp, path)
}

func (w Writer) check(path string) error {
	if w.Check == nil {
		return nil
	}
	return w.Check(path)
}

// syncDir syncs the directory of path, so that a rename or removal reaches the disk. A file system
// that cannot sync directories returns EINVAL (fsync(2)), which is ignored.
func (w Writer) syncDir(path string) error {
	w.step("syncdir")
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := dir.Sync(); err != nil && !errors.Is(err, unix.EINVAL) {
		return err
	}
	return nil
}

func (w Writer) step(name string) {
	if w.Step != nil {
		w.Step(name)
	}
}

// tempName returns the name of the temporary file. It is fixed, so that the next run finds and
// removes the file of a killed run. It starts with a dot, because programs that read all files in a
// directory, such as dnsmasq with conf-dir, skip such names.
func tempName(path string) string {
	return filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".node-dns-tmp")
}

// removeLeftover checks for the file first, because unlink(2) on a read-only file system returns
// EROFS even if the file does not exist.
func (w Writer) removeLeftover(temp string) error {
	if _, err := os.Lstat(temp); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	w.step("leftover")
	if err := unix.Unlink(temp); err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("removing temporary file %s: %w", temp, err)
	}
	return nil
}

func wrap(verb, path string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %s: %w", verb, path, err)
}

// Blocked reports whether err means that the file cannot be changed: a read-only file system, an
// immutable file or directory (chattr +i), or missing permissions. Retrying does not help; only the
// administrator can change that, and may have intended it.
func Blocked(err error) bool {
	return errors.Is(err, unix.EROFS) || errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES)
}
