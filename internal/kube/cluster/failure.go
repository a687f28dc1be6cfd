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

// errStalled ends a request whose response did not start, or stopped midway.
var errStalled = errors.New("the API server does not answer")

// errEndedEarly ends a watch that the server closed before its timeout.
var errEndedEarly = errors.New("the API server ended the watch")

// statusError is a response of the API server that is not a success.
type statusError struct {
	kubewire.Status
	right Right // the right that the request needed
}

func (e *statusError) Error() string {
	switch {
	case e.Code == http.StatusForbidden:
		return "no right to " + e.right.String()
	case e.Code == http.StatusUnauthorized:
		return "the API server does not accept the credentials (401)"
	case e.Message != "":
		return fmt.Sprintf("%d %s: %s", e.Code, http.StatusText(e.Code), e.Message)
	}
	return fmt.Sprintf("%d %s", e.Code, http.StatusText(e.Code))
}

// withRetryAfter sets the delay from the header. Overloaded servers may send nothing else.
func (e *statusError) withRetryAfter(header string) *statusError {
	if seconds, err := strconv.Atoi(header); err == nil && seconds > 0 {
		e.RetryAfter = time.Duration(min(seconds, int(maxRetryAfter/time.Second))) * time.Second
	}
	return e
}

// status returns the statusError in err, and whether there is one.
func status(err error) (*statusError, bool) {
	var e *statusError
	return e, errors.As(err, &e)
}

func hasCode(err error, code int) bool {
	e, ok := status(err)
	return ok && e.Code == code
}

// IsUnauthorized reports whether the API server rejected the credentials.
func IsUnauthorized(err error) bool { return hasCode(err, http.StatusUnauthorized) }

// isExpired reports whether the server has lost the history since the requested version.
func isExpired(err error) bool {
	e, ok := status(err)
	return ok && (e.Code == http.StatusGone || e.Reason == "Expired" || e.Reason == "Gone")
}

// isFuture reports whether the server does not know the requested version yet.
func isFuture(err error) bool {
	e, ok := status(err)
	return ok && e.TooLargeVersion
}

// retryAfter returns the delay that the server asked for, at most maxRetryAfter. 0 means that it
// asked for none.
func retryAfter(err error) time.Duration {
	e, ok := status(err)
	if !ok {
		return 0
	}
	return min(e.RetryAfter, maxRetryAfter)
}

// plain returns err without details that do not help an admin: the URL, which is long and already
// in the status; the context that our own timeout ended; and the local port of a connection. The
// port differs in each attempt, so every retry would be logged as a new error, such as behind a
// load balancer without an API server that resets what it accepts.
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
