package atomicfile

import (
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// WithRights runs f with the rights to files of a user and a group, without further groups, and returns when f has. The kernel
// then decides what f may open, access control lists and the directories on the way included. f runs on a thread of its own,
// which ends with it (setfsuid(2)); it must not start goroutines. It takes root; an error means that f did not run.
func WithRights(uid, gid int, f func()) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with this goroutine
		err := takeRights(uid, gid)
		if err == nil {
			f()
		}
		done <- err
	}()
	return <-done
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
