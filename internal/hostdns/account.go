package hostdns

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/internal/sys/atomicfile"
)

// daemonAccount returns the user and group ID that the daemon runs as. If they do not exist, ok is
// false and the IDs are those of nobody.
func daemonAccount(root string) (user, group int, ok bool) {
	const name, nobody = "node-dns", 65534
	user, hasUser := account(root, "/etc/passwd", name)
	group, hasGroup := account(root, "/etc/group", name)
	if !hasUser || !hasGroup {
		return nobody, nobody, false
	}
	return user, group, true
}

// account looks up the ID of a user or group in file, which is /etc/passwd or /etc/group below
// root. systemd-sysusers(8) adds the daemon's there. ok is false if the name does not exist.
func account(root, file, name string) (id int, ok bool) {
	data, err := os.ReadFile(filepath.Join("/", root, file))
	if err != nil {
		return 0, false
	}
	for line := range bytes.Lines(data) {
		fields := strings.Split(strings.TrimSpace(string(line)), ":")
		if len(fields) < 3 || fields[0] != name {
			continue
		}
		if id, err := strconv.ParseUint(fields[2], 10, 31); err == nil && id != 0 {
			return int(id), true
		}
	}
	return 0, false
}

// readableBy reports whether a user may read all of these files. Missing files do not count. It
// asks the kernel with the user's credentials, which only root can do.
func readableBy(uid, gid int, paths []string) (readable bool, err error) {
	err = atomicfile.WithRights(uid, gid, func() {
		readable = !slices.ContainsFunc(paths, func(path string) bool {
			f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
			if err == nil {
				f.Close()
			}
			return os.IsPermission(err)
		})
	})
	return readable, err
}
