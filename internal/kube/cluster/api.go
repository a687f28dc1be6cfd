package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/node-dns/node-dns/internal/kube/kubewire"
)

const (
	// patience is how long the API server may take for the first octet of an answer, and between two of a list. It may
	// keep a request in a queue for a minute (API priority and fairness).
	patience = 75 * time.Second
	// maxRetryAfter bounds what the server may ask for.
	maxRetryAfter = 2 * time.Minute
	maxErrorBody  = 64 << 10
)

// api asks one API server.
type api struct {
	client *http.Client
	race   *racer
	server *url.URL
	agent  string
	told   func(Request) // of each request; nil: nobody asks
	pulse  *pulse
}

// answer is a success, to be read. It must be closed.
type answer struct {
	format  kubewire.Format
	body    io.Reader
	close   func()
	blame   func(error) error // what really ended the body
	stalled *time.Timer
	silent  bool // the answer may take its time: a watch is silent while nothing happens

	hasPings     bool        // of HTTP/2
	heard        atomic.Bool // octets came since the last look; for watches
	hasBookmarks atomic.Bool // one came
}

// Read implements io.Reader. An answer that stops for patience, and is not silent, ends in errStalled.
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

// allowSilence makes the answer silent.
func (a *answer) allowSilence() {
	a.silent = true
	a.stalled.Stop()
}

// get asks for what the path and the query say, to verb ("list" or "watch").
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
		release()                 // first: it ends what the server still sends
		_ = response.Body.Close() // what was to be read has been, or nobody wants it
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
	case errors.Is(context.Cause(ctx), context.Canceled): // by us, as the answer is no longer of use
		return response, err
	}
	if answers := isAnswer(r.Code); a.race.judge(answers) && !answers {
		utilnet.CloseIdleConnectionsFor(a.client.Transport) // the next request goes to another address
	}
	if a.told != nil {
		a.told(r)
	}
	return response, err
}

// isAnswer reports whether a code comes from an API server that works; 0: there is none. 504 says that a resource version is not known
// yet.
func isAnswer(code int) bool {
	return code != 0 && (code < http.StatusInternalServerError || code == http.StatusGatewayTimeout)
}

// readStatus makes an error of an answer that is no success.
func readStatus(response *http.Response, right Right) error {
	body, err := io.ReadAll(io.LimitReader(response.Body, maxErrorBody))
	if err != nil {
		return fmt.Errorf("reading the answer %s: %w", response.Status, err)
	}
	e := &statusError{
		Status: kubewire.ParseStatus(response.StatusCode, response.Header.Get("Content-Type"), body),
		right:  right,
	}
	if to, err := response.Location(); err == nil && response.StatusCode/100 == 3 {
		e.Message = fmt.Sprintf("redirects are not followed, and this one leads to %q", to.Scheme+"://"+to.Host)
	}
	return e.withRetryAfter(response.Header.Get("Retry-After"))
}
