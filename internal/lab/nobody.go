package lab

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// AsNobody runs f without root's rights to files, in whose name tests may run: as the daemon, which is another user, finds them. It must
// not start goroutines, nor end the test: setfsuid(2) is of one thread, whose CAP_DAC_* it takes away as well, and f has one of its own.
func AsNobody(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked: the thread ends with this goroutine
		if os.Geteuid() == 0 {
			if err := unix.Setfsuid(65534); err != nil {
				panic(err) // it cannot fail
			}
		}
		f()
	}()
	<-done
}

// OpenDir is t.TempDir for a test of AsNobody: every user may enter it.
func OpenDir(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	for _, d := range []string{dir, filepath.Dir(dir)} {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
