package atomicfile

import (
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// WithRights runs f with the file permissions of a user and a group, without supplementary groups,
// and returns when f has returned. So the kernel decides what f may open, including access control
// lists and parent directories. f runs on a thread of its own, which ends afterwards (setfsuid(2));
// f must not start goroutines. This requires root. An error means that f did not run.
func WithRights(uid, gid int, f func()) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked, so the thread ends with this goroutine
		err := takeRights(uid, gid)
		if err == nil {
			f()
		}
		done <- err
	}()
	return <-done
}

// takeRights gives this thread the file permissions of a user without supplementary groups. The
// functions of package syscall would change the whole process.
func takeRights(uid, gid int) error {
	if _, _, errno := unix.RawSyscall(unix.SYS_SETGROUPS, 0, 0, 0); errno != 0 {
		return os.NewSyscallError("setgroups", errno)
	}
	if err := unix.Setfsgid(gid); err != nil {
		return os.NewSyscallError("setfsgid", err)
	}
	return os.NewSyscallError("setfsuid", unix.Setfsuid(uid))
}
