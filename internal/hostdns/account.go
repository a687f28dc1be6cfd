package hostdns

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// daemonAccount is the user that the daemon runs as, and its group; false: they do not exist, and these are nobody's.
func daemonAccount(root string) (user, group int, ok bool) {
	const name, nobody = "node-dns", 65534
	user, hasUser := account(root, "/etc/passwd", name)
	group, hasGroup := account(root, "/etc/group", name)
	if !hasUser || !hasGroup {
		return nobody, nobody, false
	}
	return user, group, true
}

// account is a user's or a group's number; false: there is none of that name. file is /etc/passwd or /etc/group below root:
// systemd-sysusers(8) puts ours there.
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

// readableBy reports whether a user may read all of these files; one that does not exist he need not. It asks the kernel,
// which knows of access control lists and of the directories on the way, in the user's name: on a thread of its own, which
// has his rights to files and ends with this call (setfsuid(2)). It takes root to ask.
func readableBy(uid, gid int, paths []string) (readable bool, err error) {
	type answer struct {
		readable bool
		err      error
	}
	done := make(chan answer)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with this goroutine
		if err := takeRights(uid, gid); err != nil {
			done <- answer{err: err}
			return
		}
		for _, path := range paths {
			f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
			if err == nil {
				f.Close()
			}
			if os.IsPermission(err) {
				done <- answer{}
				return
			}
		}
		done <- answer{readable: true}
	}()
	a := <-done
	return a.readable, a.err
}

// takeRights gives this thread the rights to files of a user without further groups. The calls of package syscall would
// give them to the whole process.
func takeRights(uid, gid int) error {
	if _, _, errno := unix.RawSyscall(unix.SYS_SETGROUPS, 0, 0, 0); errno != 0 {
		return os.NewSyscallError("setgroups", errno)
	}
	if err := unix.Setfsgid(gid); err != nil {
		return os.NewSyscallError("setfsgid", err)
	}
	return os.NewSyscallError("setfsuid", unix.Setfsuid(uid))
}
