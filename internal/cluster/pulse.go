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
	// pulseEvery is for how long a watch over HTTP/1.1 may be silent before the server is asked for a sign of life. The server sends a
	// bookmark a minute.
	pulseEvery = 25 * time.Second
	// pulsePatience is how long that may take.
	pulsePatience = 10 * time.Second
)

// pulse tells whether a server whose watches are silent is there. HTTP/2 has pings for that. A connection of HTTP/1.1 carries one
// answer at a time, so another one is asked: where a proxy has stopped, the kernel still acknowledges what TCP sends. It is safe for
// concurrent use.
type pulse struct {
	turn  chan struct{} // holds one while the server is asked: all who wait are told the same
	asked time.Time     // zero: not yet
	err   error
}

func newPulse() *pulse { return &pulse{turn: make(chan struct{}, 1)} }

// take asks, unless the server was asked a short while ago. The error is an errStalled.
func (p *pulse) take(ctx context.Context, a *api) error {
	p.turn <- struct{}{}
	defer func() { <-p.turn }()
	if !p.asked.IsZero() && time.Since(p.asked) < pulseEvery/2 {
		return p.err
	}
	err := a.beat(ctx)
	if ctx.Err() == nil { // else who asked has ended
		p.asked, p.err = time.Now(), err
	}
	return err
}

// beat asks for what everybody may read and costs the server nothing. Any answer of a server that works will do.
func (a *api) beat(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, pulsePatience, errStalled)
	defer cancel()
	response, err := a.do(ctx, http.MethodGet, "version", nil, nil, "application/json")
	if err == nil {
		defer response.Body.Close()
		_, err = io.Copy(io.Discard, io.LimitReader(response.Body, maxErrorBody)) // or the connection could not be used again
	}
	switch {
	case err == nil && isAnswer(response.StatusCode):
		return nil
	case err == nil:
		return fmt.Errorf("%w: %s", errStalled, response.Status)
	case errors.Is(plain(ctx, err), errStalled):
		return errStalled
	}
	return fmt.Errorf("%w: %w", errStalled, plain(ctx, err))
}

// watchPulse takes the pulse while the answer is silent, until ctx ends, and ends the answer with cancel when there is none.
func (a *answer) watchPulse(ctx context.Context, server *api, cancel context.CancelCauseFunc) {
	ticker := time.NewTicker(pulseEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if a.heard.Swap(false) {
			continue
		}
		if err := server.pulse.take(ctx, server); err != nil && ctx.Err() == nil {
			cancel(err)
			return
		}
	}
}
