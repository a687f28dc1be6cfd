package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/node-dns/node-dns/internal/kube/kubewire"
)

// errStalled ends a request whose answer stopped in its midst, or never began.
var errStalled = errors.New("the API server does not answer")

// errEndedEarly ends a watch that the server closed before its time.
var errEndedEarly = errors.New("the API server ended the watch")

// statusError is an answer of the API server that is no success.
type statusError struct {
	kubewire.Status
	right Right // what was asked for
}

func (e *statusError) Error() string {
	switch {
	case e.Code == http.StatusForbidden:
		return "no right to " + e.right.String()
	case e.Code == http.StatusUnauthorized:
		return "the API server does not accept our credentials (401)"
	case e.Message != "":
		return fmt.Sprintf("%d %s: %s", e.Code, http.StatusText(e.Code), e.Message)
	}
	return fmt.Sprintf("%d %s", e.Code, http.StatusText(e.Code))
}

// withRetryAfter takes the time to wait from the header, which servers that are too busy to say more send.
func (e *statusError) withRetryAfter(header string) *statusError {
	if seconds, err := strconv.Atoi(header); err == nil && seconds > 0 {
		e.RetryAfter = time.Duration(seconds) * time.Second
	}
	return e
}

// status returns the answer that err is; false when it is none.
func status(err error) (*statusError, bool) {
	var e *statusError
	return e, errors.As(err, &e)
}

func hasCode(err error, code int) bool {
	e, ok := status(err)
	return ok && e.Code == code
}

// IsUnauthorized reports whether the API server did not accept the credentials.
func IsUnauthorized(err error) bool { return hasCode(err, http.StatusUnauthorized) }

// isExpired reports whether the server no longer knows what came after the version that was asked for.
func isExpired(err error) bool {
	e, ok := status(err)
	return ok && (e.Code == http.StatusGone || e.Reason == "Expired" || e.Reason == "Gone")
}

// isFuture reports whether the server does not know the version that was asked for yet.
func isFuture(err error) bool {
	e, ok := status(err)
	return ok && e.TooLargeVersion
}

// retryAfter is how long the server wants us to wait; 0: it does not say. maxRetryAfter bounds it.
func retryAfter(err error) time.Duration {
	e, ok := status(err)
	if !ok {
		return 0
	}
	return min(e.RetryAfter, maxRetryAfter)
}

// plain is err without what says nothing to an admin: the URL, which is long and in the status already, the context that
// a deadline of ours ended, and the port that a connection came from. That is another one each time, and so each try of
// an hour would be news to the log: of a load balancer without an API server behind it that resets what it accepts.
func plain(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && errors.Is(cause, errStalled) {
		return cause
	}
	var wrapped *url.Error
	var lookup *net.DNSError
	var op *net.OpError
	var errno syscall.Errno
	switch {
	case errors.As(err, &lookup): // "read udp 127.0.0.1:40000->127.0.0.1:53: i/o timeout"
		parts := strings.Split(lookup.Err, ": ")
		return fmt.Errorf("looking up %s: %s", lookup.Name, parts[len(parts)-1])
	case errors.As(err, &op) && op.Op != "dial" && errors.As(op, &errno):
		return errno
	case errors.As(err, &wrapped):
		return wrapped.Err
	}
	return err
}
