package nodeconfig

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/node-dns/node-dns/internal/kube/kubeconfig"
	"github.com/node-dns/node-dns/internal/sys/atomicfile"
)

// maxLinks is how many links a path may lead through, as for the kernel (path_resolution(7)).
const maxLinks = 40

// trusted is where path leads, when none but root can have it lead elsewhere: every directory on the way, every link, and
// the file at its end are root's and for nobody else to write. What root reads for another user by a path that this user,
// or any other, can change might be anything: /etc/shadow, by a link. base is trusted without a look: "/", or the tree that
// is worked on.
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

// AsAnybody runs read, which reads the file at path below root, for a path that a process named. Root lends it its rights only
// where nobody else can change what path leads to, as for a Handover; otherwise read has the rights of the user nobody, and so
// finds what any user may read. An error means that read did not run.
func AsAnybody(root, path string, read func()) error {
	const nobody = 65534
	if os.Geteuid() == 0 {
		// Where a file is missing, the directories before it are root's.
		if _, err := trusted(filepath.Join("/", root), path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return atomicfile.WithRights(nobody, nobody, read)
		}
	}
	read()
	return nil
}

// rootsAlone looks at one step of the way. Where this is not root itself who looks is trusted, too.
func rootsAlone(path string, info fs.FileInfo) error {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || stat.Uid != 0 && int(stat.Uid) != os.Geteuid() {
		return kubeconfig.Refuse("%s is not root's", path)
	}
	if info.Mode()&fs.ModeSymlink == 0 && info.Mode().Perm()&0o022 != 0 {
		return kubeconfig.Refuse("%s can be written by others than root", path)
	}
	return nil
}
