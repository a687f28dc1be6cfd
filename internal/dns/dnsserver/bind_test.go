package dnsserver

import (
	"errors"
	"net"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

func TestReasons(t *testing.T) {
	tests := []struct {
		err  error
		want string
	}{
		{&net.OpError{Op: "listen", Net: "udp4", Err: os.NewSyscallError("bind", unix.EADDRINUSE)}, "bind: address already in use"},
		{
			&net.OpError{Op: "listen", Net: "udp4", Err: os.NewSyscallError("bind", unix.EACCES)},
			"bind: permission denied (ports below 1024 need root or CAP_NET_BIND_SERVICE)",
		},
		{errors.New("odd"), "odd"},
	}
	for _, test := range tests {
		if got := reasonOf(test.err).Error(); got != test.want {
			t.Errorf("%v: got %q, want %q", test.err, got, test.want)
		}
	}
	if reasonOf(nil) != nil {
		t.Error("got a reason for a nil error")
	}
}

// TestSharedPort: port 0 never picks a port that another socket shares. A server that had left kept
// its sockets open until its process ended. One in 10,000 servers started after it got no queries,
// because the kernel delivered them to the sockets of the one that had left.
func TestSharedPort(t *testing.T) {
	lc := net.ListenConfig{Control: shared}
	silent, err := lc.ListenPacket(t.Context(), "udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	addr := silent.LocalAddr().(*net.UDPAddr).AddrPort()
	s := New(Config{})
	defer s.Shutdown(t.Context())
	if b := s.bind(anyPort, addr, UDP); !errors.Is(b.err, unix.EADDRINUSE) {
		t.Errorf("port 0: %v", b.err)
	}
	b := s.bind(addr, addr, UDP)
	if b.err != nil {
		t.Fatalf("a given port: %v", b.err)
	}
	_ = drainAll(t.Context(), []*binding{b})
}
