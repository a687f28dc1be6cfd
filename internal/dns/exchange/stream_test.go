package exchange

import (
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestTLSIdle: an idle connection ends after idleTimeout without an error, and the next question
// opens another.
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
			t.Error("the stream ended too early")
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if !s.Ended() {
			t.Error("the stream is still open")
		}
		<-done
	})
}

// TestGarbageIsNoSignOfLife: messages that answer no question do not keep a connection open. An
// opportunistic server that sent 100 bytes every 50 ms but no answer caused two of three questions
// to fail.
func TestGarbageIsNoSignOfLife(t *testing.T) {
	ours, theirs := net.Pipe()
	defer theirs.Close()
	var ignored atomic.Uint64
	s := newStream(ours, 20*time.Second, false, &ignored)
	done := make(chan struct{})
	go func() { defer close(done); s.read() }()
	begun := time.Now()
	for range 3 { // a write returns when it was read completely
		if err := writeMessage(theirs, make([]byte, 100)); err != nil {
			t.Fatal(err)
		}
	}
	if s.WasHeard(begun) {
		t.Error("got WasHeard true")
	}
	s.fail(ErrClosed)
	<-done
}
