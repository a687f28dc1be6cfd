package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

const (
	// pulseEvery is the interval between checks of a silent watch.
	pulseEvery = 20 * time.Second
	// pulsePatience bounds the wait for the response to a health check.
	pulsePatience = 10 * time.Second
	// maxSilence bounds the silence of a watch that has sent a bookmark. The API server sends one a
	// minute (k8s.io/apiserver, storage/cacher, bookmarkFrequency).
	maxSilence = 3 * time.Minute
)

// pulse checks whether a server is up while its watches are silent. It is safe for concurrent use.
type pulse struct {
	turn  chan struct{} // held during a check; other callers wait and get the same result
	asked time.Time     // zero before the first check
	err   error
}

func newPulse() *pulse { return &pulse{turn: make(chan struct{}, 1)} }

// take runs a check, unless one ran a short while ago. Its error is an errStalled.
func (p *pulse) take(ctx context.Context, a *api) error {
	select {
	case p.turn <- struct{}{}:
	case <-ctx.Done():
		return nil
	}
	defer func() { <-p.turn }()
	if !p.asked.IsZero() && time.Since(p.asked) < pulseEvery/2 {
		return p.err
	}
	err := a.requestHealth(ctx)
	if ctx.Err() != nil {
		return nil
	}
	p.asked, p.err = time.Now(), err
	return err
}

// requestHealth requests the server's health, on a connection that no watch uses. Anonymous users
// may do that, and API priority and fairness never queues it. The accepted status codes come only
// from an API server: a gateway without one answers 502 to 504, and one that does not know the path
// answers 404.
func (a *api) requestHealth(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, pulsePatience, errStalled)
	defer cancel()
	response, err := a.do(ctx, http.MethodGet, "healthz", nil, nil, "application/json")
	if err == nil {
		defer response.Body.Close()
		// Drain the body, so that the connection can be reused.
		_, err = io.Copy(io.Discard, io.LimitReader(response.Body, maxErrorBody))
	}
	if err != nil {
		if err = plain(ctx, err); errors.Is(err, errStalled) {
			return err
		}
		return fmt.Errorf("%w: %w", errStalled, err)
	}
	switch response.StatusCode {
	case http.StatusOK, http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests,
		http.StatusInternalServerError: // the server is running, but reports a problem
		return nil
	}
	return fmt.Errorf("%w: %s", errStalled, response.Status)
}

// pulseBeside checks a watch while it is silent, and ends it with errStalled if the server is gone.
// HTTP/2 has pings for that. Over HTTP/1.1 the kernel of a stopped proxy still acknowledges TCP
// data, so a separate request checks the server. If the server answers and only this watch is dead,
// its bookmarks stop. stop ends the checks.
func (r *reflector) pulseBeside(ctx context.Context, watch *answer, end context.CancelCauseFunc) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = r.guard(func() error {
			if err := r.awaitSilence(ctx, watch); err != nil {
				end(err)
			}
			return nil
		})()
	}()
	return func() {
		cancel()
		<-done
	}
}

// awaitSilence returns nil when ctx ends, and errStalled when the watch is dead.
func (r *reflector) awaitSilence(ctx context.Context, watch *answer) error {
	ticker := time.NewTicker(pulseEvery)
	defer ticker.Stop()
	heard := time.Now()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		if watch.heard.Swap(false) {
			heard = time.Now()
		}
		switch silence := time.Since(heard); {
		case silence < pulseEvery/2:
		case watch.hasBookmarks.Load() && silence >= maxSilence:
			return errStalled
		case !watch.hasPings:
			if err := r.api.pulse.take(ctx, r.api); err != nil {
				return err
			}
		}
	}
}
