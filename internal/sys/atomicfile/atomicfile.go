// Package atomicfile replaces a file whole: who reads it, and who is killed
// while writing it, sees the old content or the new, never a mixture.
//
// It is apart from the packages that say what a file must hold: it knows nothing
// of DNS, only what the kernel promises about rename(2), fsync(2), bind mounts
// and SELinux labels.
package atomicfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// A Writer changes files. The zero Writer is ready. Its methods may run
// concurrently on different paths; callers hold a lock of their own for one
// path, because the temporary file beside it has a fixed name.
type Writer struct {
	// Step, if not nil, is called with the name of each step before it is done.
	// It is a seam for tests, which end the process there.
	Step func(step string)
}

// modeBits are the mode bits that Write sets and compares.
const modeBits = fs.ModePerm | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky

// Write gives the file at path this content and mode, whatever the umask, and
// reports whether anything changed. A regular file that has both already is not
// touched. Otherwise the content goes to a temporary file in the same directory,
// which gets the SELinux label of what it replaces, reaches the disk, and takes
// the place of path in one step; a symlink at path is replaced itself. A new
// file gets the label that the policy gives in that directory.
//
// A file that cannot be replaced because it is a mount point (EBUSY, EXDEV), or
// because its directory is on a read-only file system while it is not (EROFS: a
// bind mount again), is written in place. So is one that is as long already where
// the disk is full (ENOSPC, EDQUOT): a node is not to keep a nameserver that has
// ended because somebody's log has taken the last block.
//
// The directory must exist. When Write returns an error path is as it was,
// except for an error in the in-place write or after the replacement, which
// changed tells.
func (w Writer) Write(path string, data []byte, perm fs.FileMode) (changed bool, err error) {
	return w.WriteOwned(path, data, perm, 0)
}

// WriteOwned is Write for a file that a user is to own; 0 is the user that this
// process runs as. A file that is written in place keeps its owner.
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
	// One byte more than expected shows a file that grew since Lstat.
	present, err := io.ReadAll(io.LimitReader(file, int64(len(data))+1))
	return err == nil && bytes.Equal(present, data)
}

// isFull reports whether err says that the disk, or what is allowed of it, is full.
func isFull(err error) bool { return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) }

// isAsLong reports whether path is a file that has room for data.
func isAsLong(path string, data []byte) bool {
	info, err := os.Lstat(path)
	return err == nil && info.Mode().IsRegular() && info.Size() >= int64(len(data))
}

// isOwners reports whether a user owns the file at path; 0 is any.
func isOwners(path string, owner int) bool {
	info, err := os.Lstat(path)
	if err != nil {
		return false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return owner == 0 || ok && int(stat.Uid) == owner
}

// create makes the complete temporary file. On failure the caller removes it.
func (w Writer) create(temp, path string, data []byte, perm fs.FileMode, owner int) (err error) {
	w.step("create")
	file, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if closeErr := file.Close(); err == nil {
			err = closeErr
		}
	}()
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
	if owner != 0 { // last: root without CAP_FOWNER may not change the mode of another user's file
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
	return os.Rename(temp, path)
}

// syncDir makes a rename or removal in path's directory reach the disk. A file
// system that cannot sync a directory says EINVAL (fsync(2)), and has nothing
// more to offer.
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

// tempName is fixed so that the next run finds and removes what a killed one
// left behind. It starts with a dot because programs that read a directory of
// files, dnsmasq's conf-dir among them, pass over such names.
func tempName(path string) string {
	return filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".node-dns-tmp")
}

// removeLeftover looks before it removes: unlink(2) on a read-only file system
// is EROFS even where there is nothing to remove.
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

// Blocked reports whether err says that the file is not ours to change: a
// read-only file system, an immutable file or directory (chattr +i), or missing
// rights. Trying again does not help; the admin has to act, or meant it so.
func Blocked(err error) bool {
	return errors.Is(err, syscall.EROFS) || errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EACCES)
}
