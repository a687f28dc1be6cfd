package hostdns

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/internal/nodeconfig"
	"github.com/node-dns/node-dns/internal/sys/atomicfile"
)

// maxFile bounds how much of one file is read, in bytes. A larger file is not a resolv.conf.
const maxFile = 1 << 20

// File is a file as it was found. The zero File does not exist.
type File struct {
	Exists bool
	Link   string      // the target if the path is a symbolic link, else ""
	Target string      // path on the host of the file that Data was read from, after all links; "" if Link or Data is missing
	Data   []byte      // the content, through the link; nil if it cannot be read
	Mode   fs.FileMode // permission bits; for a link, the link's own
	Owner  int         // user ID of the owner
	Err    error       // why the content could not be read; such a file is never replaced
}

// ReadFile reads path. If path does not exist, it returns the zero File. Absolute link targets are
// resolved below root.
func ReadFile(root, path string) File { return readFileFrom(root, path, filepath.Dir(path)) }

// ReadNamed is ReadFile for a path that a process supplied: see nodeconfig.AsAnybody.
func ReadNamed(root, path string) (file File) {
	if err := nodeconfig.AsAnybody(root, path, func() { file = ReadFile(root, path) }); err != nil {
		return File{Exists: true, Err: err}
	}
	return file
}

// readFileFrom is ReadFile, but resolves a relative link from dir.
func readFileFrom(root, path, dir string) File {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		return File{}
	}
	if err != nil {
		return File{Exists: true, Err: err}
	}
	file := File{Exists: true, Mode: info.Mode().Perm()}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		file.Owner = int(stat.Uid)
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		if file.Link, err = os.Readlink(path); err != nil {
			return File{Exists: true, Err: err}
		}
		path = linkTarget(root, dir, file.Link)
	}
	file.Data, err = readBounded(path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		return file // a dangling link is still a link
	}
	if file.Err = err; err == nil && file.Link != "" {
		file.Target = lastTarget(root, path)
	}
	return file
}

// lastTarget follows all links in path and returns the result as a path on the host, or "" if it is
// outside root.
func lastTarget(root, path string) string {
	target, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "" // removed since
	}
	rel, err := filepath.Rel(filepath.Join("/", root), target)
	if err != nil || !filepath.IsLocal(rel) {
		return ""
	}
	return filepath.Join("/", rel)
}

func linkTarget(root, dir, target string) string {
	if filepath.IsAbs(target) {
		return filepath.Join(root, target)
	}
	return filepath.Join(dir, target)
}

func readBounded(path string) ([]byte, error) {
	data, _, err := atomicfile.Read(path, maxFile+1)
	switch {
	case err != nil:
		return nil, err
	case len(data) > maxFile:
		return nil, fmt.Errorf("%s is larger than %d bytes", path, maxFile)
	}
	return data, nil
}

// isMountPoint reports whether something is mounted at path. A kernel before 5.8 cannot tell.
func isMountPoint(path string) bool {
	var stat unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW, 0, &stat)
	return err == nil && stat.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0
}

// restoring returns the step that turns path into this file again.
func (f File) restoring(path string) Step {
	switch {
	case !f.Exists:
		return Step{Path: path, Action: Remove}
	case f.Link != "":
		return Step{Path: path, Action: MakeLink, Target: f.Link}
	}
	return Step{Path: path, Action: WriteFile, Data: f.Data, Mode: f.Mode}
}

// is reports whether f is a regular file with exactly this content.
func (f File) is(data []byte) bool {
	return f.Exists && f.Link == "" && bytes.Equal(f.Data, data)
}

var errNewer = errors.New("another program has written it since it was read")

// check returns errNewer if path is no longer as in f. The content behind a link does not count.
func (f File) check(root, path string) error {
	now := ReadFile(root, path)
	if now.Exists != f.Exists || now.Link != f.Link || now.Link == "" && !bytes.Equal(now.Data, f.Data) {
		return errNewer
	}
	return nil
}
