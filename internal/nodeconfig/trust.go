package nodeconfig

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/node-dns/node-dns/internal/sys/atomicfile"
)

// maxLinks bounds the symlinks that a path may lead through, as in the kernel (path_resolution(7)).
const maxLinks = 40

// trusted resolves path if only root can change where it leads: every directory and link on the way
// and the file at its end belong to root and are not writable by others. If another user could
// change the path, root might read any file for that user, such as /etc/shadow through a symlink.
// base is trusted without a check: "/", or the root directory in use.
func trusted(base, path string) (string, error) {
	at, todo := "/", strings.Split(path, "/")
	if rest, ok := strings.CutPrefix(path, base+"/"); ok && base != "/" {
		at, todo = base, strings.Split(rest, "/")
	}
	links := 0
	for len(todo) > 0 {
		name := todo[0]
		todo = todo[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			at = filepath.Dir(at)
			continue
		}
		next := filepath.Join(at, name)
		info, err := os.Lstat(next)
		if err != nil {
			return "", err
		}
		if err := rootsAlone(next, info); err != nil {
			return "", err
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			at = next
			continue
		}
		if links++; links > maxLinks {
			return "", fmt.Errorf("following %s: %w", path, syscall.ELOOP)
		}
		target, err := os.Readlink(next)
		if err != nil {
			return "", err
		}
		if filepath.IsAbs(target) {
			at = "/"
		}
		todo = append(strings.Split(target, "/"), todo...)
	}
	return at, nil
}

// AsAnybody runs read, which reads the file at path below root, a path that came from a process. As
// root, read keeps its privileges only if nobody else can change where path leads, as for a
// Handover. Otherwise it runs with those of the user nobody, and reads only what any user may read.
// An error means that read did not run.
func AsAnybody(root, path string, read func()) error {
	const nobody = 65534
	if os.Geteuid() == 0 {
		// If a file is missing, the directories before it are root's.
		if _, err := trusted(filepath.Join("/", root), path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return atomicfile.WithRights(nobody, nobody, read)
		}
	}
	read()
	return nil
}

// rootsAlone checks one step of the path. If the caller is not root, its own files are trusted too.
func rootsAlone(path string, info fs.FileInfo) error {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || stat.Uid != 0 && int(stat.Uid) != os.Geteuid() {
		return refuse("%s is not owned by root", path)
	}
	if info.Mode()&fs.ModeSymlink == 0 && info.Mode().Perm()&0o022 != 0 {
		return refuse("%s can be written by users other than root", path)
	}
	return nil
}
