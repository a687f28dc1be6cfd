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
			"bind: permission denied (a port below 1024 takes root or CAP_NET_BIND_SERVICE)",
		},
		{errors.New("odd"), "odd"},
	}
	for _, test := range tests {
		if got := reasonOf(test.err).Error(); got != test.want {
			t.Errorf("%v: got %q, expected %q", test.err, got, test.want)
		}
	}
	if reasonOf(nil) != nil {
		t.Error("a reason for nothing")
	}
}
