package lab

import (
	"bytes"
	"io"
	"os"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"
)

// AsNobody runs f without root's access to files, because tests may run as root and the daemon does
// not. f must not start goroutines or end the test: setfsuid(2) applies to a single thread, which
// also loses CAP_DAC_*, and f runs on its own.
func AsNobody(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked: the thread ends with this goroutine
		if os.Geteuid() == 0 {
			if err := unix.Setfsuid(65534); err != nil {
				panic(err) // cannot fail
			}
		}
		f()
	}()
	<-done
}

// Text collects output, usually a log, while the test reads it. It is safe for concurrent use.
type Text struct {
	mu   sync.Mutex // guards text
	text bytes.Buffer
}

var _ io.Writer = (*Text)(nil)

func (t *Text) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.Write(p)
}

// String returns everything written so far.
func (t *Text) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.String()
}
