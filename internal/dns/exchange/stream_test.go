package exchange

import (
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestTLSIdle checks that an idle connection ends after idleTimeout without an error. The next question opens another.
func TestTLSIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		defer theirs.Close()
		var ignored atomic.Uint64
		s := newStream(ours, time.Second, false, &ignored)
		done := make(chan struct{})
		go func() { defer close(done); s.read() }()
		time.Sleep(idleTimeout - time.Nanosecond)
		synctest.Wait()
		if s.Ended() {
			t.Error("ended before its time")
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if !s.Ended() {
			t.Error("it is kept")
		}
		<-done
	})
}

// TestGarbageIsNoSignOfLife: messages that answer no question do not keep a connection. An opportunistic one that sent 100 octets every
// 50 ms, and no answer, failed two of three questions.
func TestGarbageIsNoSignOfLife(t *testing.T) {
	ours, theirs := net.Pipe()
	defer theirs.Close()
	var ignored atomic.Uint64
	s := newStream(ours, 20*time.Second, false, &ignored)
	done := make(chan struct{})
	go func() { defer close(done); s.read() }()
	begun := time.Now()
	for range 3 { // a write returns when all of it was read
		if err := writeMessage(theirs, make([]byte, 100)); err != nil {
			t.Fatal(err)
		}
	}
	if s.WasHeard(begun) {
		t.Error("it counts as heard")
	}
	s.fail(ErrClosed)
	<-done
}
