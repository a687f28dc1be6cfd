package rawsock

import (
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestBell: the Bell rings while there is something to read, unless it is muted, and Wait ends at
// the deadline and on Close.
func TestBell(t *testing.T) {
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pipe[0])
	defer unix.Close(pipe[1])
	b, err := NewBell(pipe[0])
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	silent := func(when string) {
		t.Helper()
		b.SetDeadline(time.Now().Add(10 * time.Millisecond))
		if err := b.Wait(); !os.IsTimeout(err) {
			t.Errorf("%s: %v", when, err)
		}
		b.SetDeadline(time.Time{})
	}
	silent("with nothing to read")
	if _, err := unix.Write(pipe[1], []byte("x")); err != nil {
		t.Fatal(err)
	}
	for range 2 { // until the data is read
		if err := b.Wait(); err != nil {
			t.Error(err)
		}
	}
	b.Mute()
	silent("muted")
	b.Unmute()
	if err := b.Wait(); err != nil {
		t.Error(err)
	}
	if _, err := unix.Read(pipe[0], make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	rung := make(chan error)
	go func() { rung <- b.Wait() }()
	if _, err := unix.Write(pipe[1], []byte("x")); err != nil {
		t.Fatal(err)
	}
	if err := <-rung; err != nil {
		t.Error(err)
	}
	b.Mute()
	go func() { rung <- b.Wait() }()
	b.Close()
	if err := <-rung; err == nil {
		t.Error("a closed Bell rings")
	}
}
