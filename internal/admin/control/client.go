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

	"golang.org/x/sys/unix"
)

// ErrNotRunning says that nobody listens on the control socket.
var ErrNotRunning = errors.New("node-dns is not running")

// ErrUnknown says that the daemon does not know the question.
var ErrUnknown = errors.New("the one that runs does not know this question")

// maxAnswer bounds in octets what a client reads at once; a status with every table full is well below it.
const maxAnswer = 8 << 20

// FetchStatus asks the daemon that listens on path. It returns ErrNotRunning when none does.
func FetchStatus(ctx context.Context, path string) (Status, error) {
	return ask[Status](ctx, path, statusPath, nil)
}

// ask puts a question (nil: there are no words to it) to the daemon that listens on path, and reads its answer whole.
func ask[A any](ctx context.Context, path, endpoint string, question any) (answer A, err error) {
	body, err := open(ctx, path, endpoint, question)
	if err != nil {
		return answer, err
	}
	defer body.Close()
	if err := json.NewDecoder(io.LimitReader(body, maxAnswer)).Decode(&answer); err != nil {
		return answer, fmt.Errorf("reading node-dns's answer: %w", err)
	}
	return answer, nil
}

// open is the answer to a question as it comes in. It must be closed.
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
		return nil, fmt.Errorf("%w: nobody listens on %s", ErrNotRunning, path)
	case errors.Is(err, os.ErrPermission):
		return nil, fmt.Errorf("asking node-dns at %s: %w: %w", path, errNotAdmin, os.ErrPermission)
	case err != nil:
		return nil, fmt.Errorf("asking node-dns: %w", err)
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

// refused says why there is no answer: in the daemon's words where it has some.
func refused(response *http.Response) error {
	if response.StatusCode == http.StatusNotFound || response.StatusCode == http.StatusMethodNotAllowed {
		return fmt.Errorf("asking node-dns: %w (%s): it is of another version than this program, "+
			"and systemctl restart node-dns takes the installed one", ErrUnknown, response.Status)
	}
	var said refusal
	if err := json.NewDecoder(io.LimitReader(response.Body, maxAnswer)).Decode(&said); err != nil || said.Error == "" {
		return fmt.Errorf("asking node-dns: it said %s", response.Status)
	}
	switch response.StatusCode {
	case http.StatusBadRequest:
		return MistakeError{said.Error}
	case http.StatusForbidden:
		return fmt.Errorf("asking node-dns: %s: %w", said.Error, os.ErrPermission)
	}
	return fmt.Errorf("asking node-dns: %s", said.Error)
}
