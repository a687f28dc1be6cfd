package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// ErrNotRunning means that no process listens on the control socket.
var ErrNotRunning = errors.New("node-dns is not running")

// ErrNoAnswer means that the daemon runs but sent no complete answer.
var ErrNoAnswer = errors.New("node-dns does not answer")

// ErrUnknown means that the daemon does not support the request.
var ErrUnknown = errors.New("the running daemon does not support this request")

// maxAnswer limits the size of an answer, in bytes. A status with every table full is well below
// it.
const maxAnswer = 8 << 20

// FetchStatus fetches the status of the daemon that listens on path. It returns ErrNotRunning if
// there is none.
func FetchStatus(ctx context.Context, path string) (Status, error) {
	return ask[Status](ctx, path, statusPath, nil)
}

// ask sends a question to the daemon that listens on path and reads the whole answer. question is
// nil if the request has no body.
func ask[A any](ctx context.Context, path, endpoint string, question any) (answer A, err error) {
	body, err := open(ctx, path, endpoint, question)
	if err != nil {
		return answer, err
	}
	defer body.Close()
	if err := json.NewDecoder(io.LimitReader(body, maxAnswer)).Decode(&answer); err != nil {
		return answer, noAnswer(err)
	}
	return answer, nil
}

// noAnswer explains why there is no complete answer, without details of the transport.
func noAnswer(err error) error {
	var syntax *json.SyntaxError
	var mismatch *json.UnmarshalTypeError
	var date *time.ParseError
	var timeout net.Error
	switch {
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("%w: %w", ErrNoAnswer, context.Canceled)
	case errors.As(err, &timeout) && timeout.Timeout():
		return fmt.Errorf("%w before the timeout; it may hang, or earlier commands of this user take long", ErrNoAnswer)
	case errors.As(err, &syntax), errors.As(err, &mismatch), errors.As(err, &date):
		return fmt.Errorf("%w in a form that this program understands: %s", ErrNoAnswer, otherVersion)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, unix.ECONNRESET), errors.Is(err, unix.EPIPE):
		return fmt.Errorf("%w: it closed the connection because it stopped or because too many commands run at once. Try again; a user who is neither root "+
			"nor in the group %s gets %d connections at once, %d more wait up to %v, and query uses 2", ErrNoAnswer, AdminGroup, maxGuestsOfUser, maxWaitingOfUser, guestPatience)
	}
	for next := errors.Unwrap(err); next != nil; next = errors.Unwrap(err) {
		err = next // the outer errors only add addresses and system calls
	}
	return fmt.Errorf("%w: %w", ErrNoAnswer, err)
}

// otherVersion is the advice for a daemon that was started before its program was upgraded.
const otherVersion = `its version differs from this program's; run "systemctl restart node-dns" to start the installed version`

// open sends a question and returns the body of the answer, which the caller must close.
func open(ctx context.Context, path, endpoint string, question any) (io.ReadCloser, error) {
	client := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", path)
		},
	}}
	request, err := newRequest(ctx, endpoint, question)
	if err != nil {
		return nil, err
	}
	response, err := client.Do(request)
	switch {
	case errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ECONNREFUSED):
		return nil, fmt.Errorf("%w: no process listens on %s", ErrNotRunning, path)
	case errors.Is(err, os.ErrPermission):
		return nil, fmt.Errorf("%w: %s is not accessible to this user", os.ErrPermission, path)
	case err != nil:
		return nil, noAnswer(err)
	case response.StatusCode != http.StatusOK:
		defer response.Body.Close()
		return nil, refused(response)
	}
	return response.Body, nil
}

func newRequest(ctx context.Context, endpoint string, question any) (*http.Request, error) {
	if question == nil {
		return http.NewRequestWithContext(ctx, http.MethodGet, "http://node-dns"+endpoint, nil)
	}
	text, err := json.Marshal(question)
	if err != nil {
		return nil, err
	}
	return http.NewRequestWithContext(ctx, http.MethodPost, "http://node-dns"+endpoint, bytes.NewReader(text))
}

// refused converts an error response. It uses the daemon's own message if there is one.
func refused(response *http.Response) error {
	if response.StatusCode == http.StatusNotFound || response.StatusCode == http.StatusMethodNotAllowed {
		return fmt.Errorf("%w: %s", ErrUnknown, otherVersion)
	}
	var said refusal
	if err := json.NewDecoder(io.LimitReader(response.Body, maxAnswer)).Decode(&said); err != nil || said.Error == "" {
		return fmt.Errorf("%w in a form that this program understands: %s", ErrNoAnswer, otherVersion)
	}
	switch response.StatusCode {
	case http.StatusBadRequest:
		return MistakeError{said.Error}
	case http.StatusForbidden:
		return fmt.Errorf("%w: %s", os.ErrPermission, said.Error)
	}
	return fmt.Errorf("node-dns reports: %s", said.Error)
}

// errNotReady means that the daemon runs but is not ready.
var errNotReady = errors.New("node-dns is not ready")

// waitPause is the interval between requests. Each takes the daemon a millisecond.
const waitPause = 100 * time.Millisecond

// AwaitReady returns nil when the daemon that listens on path, or will listen, is ready: every
// address is bound, and there is an upstream server. If ctx ends first, it returns the last
// obstacle: ErrNotRunning, or the reasons why it is not ready. It returns a permission error at
// once.
func AwaitReady(ctx context.Context, path string) error {
	tick := time.NewTicker(waitPause)
	defer tick.Stop()
	reason := fmt.Errorf("%w: it has not reported its state", errNotReady)
	for {
		status, err := FetchStatus(ctx, path)
		switch {
		case err == nil && status.Ready:
			return nil
		case err == nil:
			reason = notReady(status)
		case errors.Is(err, os.ErrPermission):
			return err
		case ctx.Err() == nil: // a daemon that stops while it answers may come back
			reason = err
		}
		select {
		case <-ctx.Done():
			return reason
		case <-tick.C:
		}
	}
}

func notReady(s Status) error {
	if len(s.Problems) == 0 {
		return fmt.Errorf("%w: it is starting", errNotReady)
	}
	return fmt.Errorf("%w: %s", errNotReady, strings.Join(s.Problems, "; "))
}
