package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/node-dns/node-dns/internal/kube/kubewire"
)

const (
	// patience bounds the wait for the first byte of a response, and for each next byte of a list.
	// The API server may queue a request for a minute (API priority and fairness).
	patience = 75 * time.Second
	// maxRetryAfter bounds the delay that the server may ask for.
	maxRetryAfter = 2 * time.Minute
	maxErrorBody  = 64 << 10
	// maxAnswer exceeds the etcd limit for one object, in bytes.
	maxAnswer = 4 << 20
)

type api struct {
	client *http.Client
	race   *racer
	server *url.URL
	header http.Header // credentials; do adds the others
	agent  string
	told   func(Request) // called after each request; nil disables it
	pulse  *pulse
}

// answer is the body of a successful response. The caller must close it.
type answer struct {
	format  kubewire.Format
	body    io.Reader
	close   func()
	blame   func(error) error // returns the real reason why the body ended
	stalled *time.Timer
	silent  bool // no read timeout: a watch is silent while nothing changes

	hasPings     bool        // HTTP/2
	heard        atomic.Bool // bytes have arrived since the last check; for watches
	hasBookmarks atomic.Bool // at least one bookmark has arrived
}

// Read implements io.Reader. It fails with errStalled after patience without data, unless silence
// is allowed.
func (a *answer) Read(p []byte) (int, error) {
	if !a.silent {
		a.stalled.Reset(patience)
	}
	n, err := a.body.Read(p)
	if n > 0 {
		a.heard.Store(true)
	}
	if err != nil && err != io.EOF {
		err = a.blame(err)
	}
	return n, err
}

// allowSilence disables the read timeout.
func (a *answer) allowSilence() {
	a.silent = true
	a.stalled.Stop()
}

// get requests the objects of s that query selects. The verb, "list" or "watch", names the missing
// right in an error.
func (a *api) get(ctx context.Context, verb string, s source, query url.Values) (*answer, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	stalled := time.AfterFunc(patience, func() { cancel(errStalled) })
	release := func() {
		stalled.Stop()
		cancel(nil)
	}
	response, err := a.do(ctx, http.MethodGet, s.path(), query, nil, s.accept())
	if err != nil {
		defer release()
		return nil, plain(ctx, err)
	}
	done := func() {
		release()                 // first: it stops what the server is still sending
		_ = response.Body.Close() // everything that was needed has been read
	}
	if response.StatusCode != http.StatusOK {
		defer done()
		return nil, readStatus(response, rightTo(verb, s))
	}
	format, err := kubewire.ParseFormat(response.Header.Get("Content-Type"))
	if err != nil {
		defer done()
		return nil, err
	}
	return &answer{
		format: format, body: response.Body, close: done, stalled: stalled, hasPings: response.ProtoMajor >= 2,
		blame: func(err error) error { return plain(ctx, err) },
	}, nil
}

func (a *api) do(ctx context.Context, method, path string, query url.Values, body io.Reader, accept string) (*http.Response, error) {
	target := a.server.JoinPath(path)
	target.RawQuery = query.Encode()
	request, err := http.NewRequestWithContext(ctx, method, target.String(), body)
	if err != nil {
		return nil, err
	}
	request.Header = a.header.Clone()
	request.Header.Set("User-Agent", a.agent)
	request.Header.Set("Accept", accept)
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := a.client.Do(request)
	r := Request{Method: method, Host: a.server.Host}
	switch {
	case err == nil:
		r.Code = response.StatusCode
	case errors.Is(context.Cause(ctx), context.Canceled): // by us: the response is no longer needed
		return response, err
	}
	if answers := isAnswer(r.Code); a.race.judge(answers) && !answers {
		a.client.CloseIdleConnections() // the next request goes to another address
	}
	if a.told != nil {
		a.told(r)
	}
	return response, err
}

// fetch decodes the response to a request into answer, if that is not nil. body is sent as JSON
// unless it is nil. right names the missing right in an error.
func (a *api) fetch(ctx context.Context, method, path string, query url.Values, body any, right Right, answer any) error {
	var sent io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return err
		}
		sent = bytes.NewReader(data)
	}
	response, err := a.do(ctx, method, path, query, sent, kubewire.AcceptJSON)
	if err != nil {
		return plain(ctx, err)
	}
	defer response.Body.Close()
	switch {
	case response.StatusCode/100 != 2:
		return readStatus(response, right)
	case answer == nil:
		return nil
	}
	if err := json.NewDecoder(io.LimitReader(response.Body, maxAnswer)).Decode(answer); err != nil {
		return fmt.Errorf("%w: %w", kubewire.ErrMalformed, err)
	}
	return nil
}

// isAnswer reports whether an HTTP status code comes from a working API server. Code 0 means no
// response. The API server uses 504 for a resource version that it does not know yet.
func isAnswer(code int) bool {
	return code != 0 && (code < http.StatusInternalServerError || code == http.StatusGatewayTimeout)
}

// readStatus returns an error for a response that is not a success.
func readStatus(response *http.Response, right Right) error {
	body, err := io.ReadAll(io.LimitReader(response.Body, maxErrorBody))
	if err != nil {
		return fmt.Errorf("reading the response %s: %w", response.Status, err)
	}
	e := &statusError{
		Status: kubewire.ParseStatus(response.StatusCode, response.Header.Get("Content-Type"), body),
		right:  right,
	}
	if to, err := response.Location(); err == nil && response.StatusCode/100 == 3 {
		e.Message = fmt.Sprintf("redirects are not followed; this one leads to %q", to.Scheme+"://"+to.Host)
	}
	return e.withRetryAfter(response.Header.Get("Retry-After"))
}
