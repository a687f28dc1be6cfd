package exchange

import (
	"context"
	"errors"
	"net"
	"os"
	"testing"
	"time"
)

// TestSlowLongMessage: a server that sends the beginning of a long message and then nothing does
// not hold a slot for long messages until the question ends.
func TestSlowLongMessage(t *testing.T) {
	d := NewDialer(DialerConfig{})
	ours, theirs := net.Pipe()
	defer theirs.Close()
	ended := make(chan error, 1)
	go func() {
		_, err := d.receiveTCP(context.Background(), ours, nil, nil)
		ended <- err
	}()
	if _, err := theirs.Write(append([]byte{0x40, 0}, make([]byte, longMessage)...)); err != nil {
		t.Fatal(err)
	}
	for len(d.received) == 0 {
		time.Sleep(time.Millisecond)
	}
	if err := <-ended; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("ended with %v", err)
	}
	if n := len(d.received); n != 0 {
		t.Errorf("%d slots are in use", n)
	}
}

func TestReadAtATime(t *testing.T) {
	for processors, want := range map[int]int{1: 1, 2: 1, 4: 2, 16: mostRead, 128: mostRead} {
		if got := readAtATime(processors); got != want {
			t.Errorf("with %d CPUs: got %d, want %d", processors, got, want)
		}
	}
}
