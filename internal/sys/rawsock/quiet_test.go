package rawsock

import (
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestReadable: files are told apart, and those that cannot be polled are not readable.
func TestReadable(t *testing.T) {
	var full, empty [2]int
	for _, pipe := range []*[2]int{&full, &empty} {
		if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
			t.Fatal(err)
		}
		defer unix.Close(pipe[0])
		defer unix.Close(pipe[1])
	}
	if _, err := unix.Write(full[1], []byte("x")); err != nil {
		t.Fatal(err)
	}
	const closed = 1 << 20
	if got, want := Readable([]int{empty[0], full[0], full[1], closed}), []bool{false, true, false, false}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := Readable(nil); len(got) > 0 {
		t.Errorf("got %v for no files", got)
	}
}

// TestSendUnix: a message arrives at a path or at an abstract address. A socket that is missing or
// full is reported, at once.
func TestSendUnix(t *testing.T) {
	dir := t.TempDir()
	for _, address := range []string{filepath.Join(dir, "s"), "@node-dns-test-" + filepath.Base(filepath.Dir(dir))} {
		socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: address, Net: "unixgram"})
		if err != nil {
			t.Fatal(err)
		}
		defer socket.Close()
		in := make([]byte, 10)
		if !SendUnix(address, "hello") {
			t.Errorf("%s: not sent", address)
		} else if n, err := socket.Read(in); err != nil || string(in[:n]) != "hello" {
			t.Errorf("%s: got %q, %v", address, in[:n], err)
		}
		for SendUnix(address, "hello") { // until the socket is full
		}
	}
	for _, address := range []string{"", filepath.Join(dir, "missing"), "/" + strings.Repeat("x", 107), "/" + strings.Repeat("x", 200)} {
		if SendUnix(address, "hello") {
			t.Errorf("%q: sent", address)
		}
	}
}
