package fleet

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/util/exec"
	"k8s.io/streaming/pkg/httpstream"
)

// Output is the result of a program that ended.
type Output struct {
	Stdout, Stderr []byte
	Code           int // exit code
}

const (
	// MaxOutput limits a program's output, in bytes. The status of a node with 100 routes has 60
	// KB.
	MaxOutput = 1 << 20
	// maxErrors is the same for standard error.
	maxErrors = 4 << 10
)

// ErrTooLarge means that the output was longer than MaxOutput.
var ErrTooLarge = errors.New("the output is longer than 1 MiB")

// Exec runs a program in a pod and returns its output, whatever its exit code is. Like kubectl, it
// uses a WebSocket, or SPDY if the API server or a proxy before it does not support that.
func (c *Client) Exec(ctx context.Context, pod string, argv []string) (Output, error) {
	request := c.api.Post().Namespace(c.namespace).Resource("pods").Name(pod).SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{Container: c.container, Command: argv, Stdout: true, Stderr: true}, c.parameters)
	url := request.URL()
	overSPDY, err := remotecommand.NewSPDYExecutor(c.config, http.MethodPost, url)
	if err != nil {
		return Output{}, err
	}
	overWebSocket, err := remotecommand.NewWebSocketExecutor(c.config, http.MethodGet, url.String())
	if err != nil {
		return Output{}, err
	}
	var refusal *httpstream.UpgradeFailureError // of the WebSocket
	executor, err := remotecommand.NewFallbackExecutor(overWebSocket, overSPDY, func(err error) bool {
		return errors.As(err, &refusal) || httpstream.IsHTTPSProxyError(err)
	})
	if err != nil {
		return Output{}, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stdout := &limited{limit: MaxOutput, full: func() { cancel(ErrTooLarge) }}
	stderr := &limited{limit: maxErrors, full: func() {}}
	err = executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: stdout, Stderr: stderr})
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return Output{}, cause
	}
	output := Output{Stdout: stdout.take(), Stderr: stderr.take()}
	var ended exec.CodeExitError
	if errors.As(err, &ended) {
		output.Code = ended.Code
		return output, nil
	}
	if err != nil {
		return output, failure(err, refusal)
	}
	return output, nil
}

// request is the part of an error that has the address of a kubelet, and the names of its pod.
var request = regexp.MustCompile(`(Get|Post) "[^"]*": `)

// failure returns the error of a connection over SPDY. Its type does not say that the API server
// denied it. The error of a refused WebSocket does, but a WebSocket may need another right.
func failure(err error, refusal *httpstream.UpgradeFailureError) error {
	isDenied := refusal != nil && denied(refusal.Cause) != refusal.Cause
	text := request.ReplaceAllString(err.Error(), "")
	if isDenied && (strings.Contains(text, "forbidden") || strings.Contains(text, "Unauthorized")) {
		return deniedError{errors.New(text)}
	}
	return errors.New(text) // no caller asks for its type
}

// denied adds os.ErrPermission to an error if the API server denied the request.
func denied(err error) error {
	if apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) {
		return deniedError{err}
	}
	return err
}

// deniedError is an error for which errors.Is(err, os.ErrPermission) is true.
type deniedError struct{ error }

func (e deniedError) Unwrap() []error { return []error{e.error, os.ErrPermission} }

// limited keeps at most limit bytes and drops the rest, so that the connection does not block. It
// is safe for concurrent use: a stream may write to it after Exec has returned.
type limited struct {
	limit int
	full  func() // called when bytes are dropped

	mu   sync.Mutex // guards data
	data bytes.Buffer
}

var _ io.Writer = (*limited)(nil)

func (l *limited) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	room := l.limit - l.data.Len()
	l.data.Write(p[:min(room, len(p))])
	if len(p) > room {
		l.full()
	}
	return len(p), nil
}

func (l *limited) take() []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	return bytes.Clone(l.data.Bytes())
}
