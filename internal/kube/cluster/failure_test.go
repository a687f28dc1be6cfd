package cluster

import (
	"context"
	"errors"
	"io"
	"net"
	"net/url"
	"os"
	"syscall"
	"testing"
	"time"
)

// TestRetryAfterHeader: a number of seconds whose nanoseconds overflow made the next request, and
// all that followed, go out at once.
func TestRetryAfterHeader(t *testing.T) {
	for header, want := range map[string]time.Duration{
		"": 0, "-1": 0, "soon": 0, "7": 7 * time.Second, "121": maxRetryAfter, "9223372037": maxRetryAfter, "9223372036854775807": maxRetryAfter,
	} {
		err := new(statusError).withRetryAfter(header)
		if got, wait := retryAfter(err), backoff(1, err); got != want || wait.min < want {
			t.Errorf("Retry-After: %s: %v, then %v", header, got, wait)
		}
	}
}

// TestPlain: the same fault always has the same text. Each new text is a line in the log.
func TestPlain(t *testing.T) {
	reset := &os.SyscallError{Syscall: "read", Err: syscall.ECONNRESET}
	from, to := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 40001}, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 6443}
	rows := []struct {
		name string
		err  error
		want string
	}{
		{"without the URL", &url.Error{Op: "Get", URL: "https://127.0.0.1:6443/api", Err: io.ErrUnexpectedEOF}, "unexpected EOF"},
		{"without the local port", &url.Error{Err: &net.OpError{Op: "read", Net: "tcp", Source: from, Addr: to, Err: reset}}, "connection reset by peer"},
		{"without the local port, write error", &net.OpError{Op: "write", Net: "tcp", Source: from, Addr: to, Err: reset}, "connection reset by peer"},
		{
			"with the server's port", &url.Error{Err: &net.OpError{Op: "dial", Net: "tcp", Addr: to, Err: syscall.ECONNREFUSED}},
			"dial tcp 127.0.0.1:6443: connection refused",
		},
		{"lookup without ports", &url.Error{Err: &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{
			Err: "read udp 127.0.0.1:40001->127.0.0.1:53: i/o timeout", Name: "api.example", Server: "127.0.0.1:53", IsTimeout: true,
		}}}, "looking up api.example: i/o timeout"},
		{"no such host", &url.Error{Err: &net.DNSError{Err: "no such host", Name: "api.example"}}, "looking up api.example: no such host"},
		{"another", errors.New("tls: bad"), "tls: bad"},
	}
	for _, row := range rows {
		if got := plain(context.Background(), row.err).Error(); got != row.want {
			t.Errorf("%s: %q, want %q", row.name, got, row.want)
		}
	}
}
