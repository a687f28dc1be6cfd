package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/node-dns/node-dns/internal/kube/kubewire"
	"github.com/node-dns/node-dns/internal/sys/journal"
	"github.com/node-dns/node-dns/internal/sys/supervise"
)

const (
	shapeSoon   = time.Minute // time until the second check of the available APIs; the server may have been starting
	shapeEvery  = time.Hour   // average interval between checks of the available APIs
	startSpread = time.Second // spreads the first requests of nodes that start together
)

// errShapeChanged ends a session: the server has added or removed an API.
var errShapeChanged = errors.New("the APIs of the API server have changed")

// errFilesChanged ends a session: the credentials have changed.
var errFilesChanged = errors.New("the kubeconfig or a file that it names has changed")

// Run watches until ctx ends and then returns nil. A missing file or server is not an error,
// because it may appear later. Run fails only on a panic; the caller may then start another
// Watcher.
func (w *Watcher) Run(ctx context.Context) error {
	o := newOwner(w)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(w.config.guard(func() error { return o.run(ctx) }))
	group.Go(w.config.guard(func() error { return w.connect(ctx, o) }))
	group.Go(w.config.guard(func() error { return w.writeSaves(o.saves) }))
	return group.Wait()
}

// connect runs one session after another.
func (w *Watcher) connect(ctx context.Context, o *owner) error {
	failures := 0
	for ctx.Err() == nil {
		c, err := connect(w.config)
		if err != nil {
			o.tell(ctx, news{phase: phaseOf(err, w.config.Kubeconfig), err: err})
			supervise.Sleep(ctx, w.config.LookEvery)
			continue
		}
		began := time.Now()
		err = w.session(ctx, c, o)
		c.close()
		if ctx.Err() != nil || errors.Is(err, errFilesChanged) {
			failures = 0
			continue
		}
		if time.Since(began) > goodWatch {
			failures = 0
		}
		failures++
		o.tell(ctx, news{phase: Connecting, err: err, connection: c})
		w.waitOrChange(ctx, c, backoff(failures, err).pick(w.config.Chance()))
	}
	return nil
}

// waitOrChange waits, but returns early if the files of c change.
func (w *Watcher) waitOrChange(ctx context.Context, c *connection, wait time.Duration) {
	for end := time.Now().Add(wait); time.Now().Before(end); {
		if !supervise.Sleep(ctx, min(w.config.LookEvery, time.Until(end))) || c.changed() {
			return
		}
	}
}

// session watches over one connection until a new one is needed. Its error is the reason and never
// nil.
func (w *Watcher) session(ctx context.Context, c *connection, o *owner) error {
	o.tell(ctx, news{phase: Connecting, connection: c})
	if !supervise.Sleep(ctx, time.Duration(w.config.Chance()*float64(startSpread))) {
		return ctx.Err()
	}
	has, isSure, err := c.api.shape(ctx)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(w.config.guard(func() error { return followFiles(ctx, c, w.config.LookEvery) }))
	if w.settings != nil {
		group.Go(w.config.guard(func() error { return w.followSettings(ctx, c) }))
	}
	group.Go(w.config.guard(func() error {
		return w.follow(ctx, c, news{phase: Syncing, connection: c, shape: has, isSure: isSure}, o)
	}))
	return group.Wait()
}

// followShape returns when the server's shape changes. Failed requests are ignored: the watches
// notice an outage.
func (w *Watcher) followShape(ctx context.Context, c *connection, has plan) error {
	for wait := shapeSoon; supervise.Sleep(ctx, time.Duration((0.5+w.config.Chance())*float64(wait))); wait = shapeEvery {
		if is, isSure, err := c.api.shape(ctx); err == nil && isSure && (is != has.shape || !has.isSure) {
			return errShapeChanged
		}
	}
	return ctx.Err()
}

// followFiles returns when the files of c change. It checks them at the interval.
func followFiles(ctx context.Context, c *connection, every time.Duration) error {
	for supervise.Sleep(ctx, every) {
		if c.changed() {
			return errFilesChanged
		}
	}
	return ctx.Err()
}

// follow runs a reflector for every source of the owner's plan. n announces the connection to the
// owner.
func (w *Watcher) follow(ctx context.Context, c *connection, n news, o *owner) error {
	plans := make(chan plan, 1)
	n.plan = plans
	o.tell(ctx, n)
	var p plan
	select {
	case <-ctx.Done():
		return ctx.Err()
	case p = <-plans:
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(w.config.guard(func() error { return w.followShape(ctx, c, p) }))
	for _, a := range p.sources {
		to := func(r report) error { return o.report(ctx, r) }
		reflector := newReflector(c.api, a.source, a.position, to, w.config)
		group.Go(w.config.guard(func() error {
			for {
				err := reflector.run(ctx)
				switch {
				case err == nil:
					return nil
				case a.source.kind != kubewire.ServiceImports:
					return fmt.Errorf("watching %s: %w", a.source.path(), err)
				}
				// The other sources continue unless the server's APIs changed.
				if is, isSure, failed := c.api.shape(ctx); failed == nil && isSure && is != p.shape {
					return errShapeChanged
				}
				if to(report{source: a.source, step: broken, err: err}) != nil || !supervise.Sleep(ctx, backoff(6, nil).pick(w.config.Chance())) {
					return nil
				}
			}
		}))
	}
	return group.Wait()
}

var errPanicked = errors.New("internal error")

// guard turns a panic in f into an error. A bug in reading the API must not stop the nameserver.
func (c Config) guard(f func() error) func() error {
	return func() (err error) {
		defer func() {
			if p := recover(); p != nil {
				c.Panics.Caught(c.Log, "task panicked", journal.TaskPanic, p, "task", "watch cluster")
				err = errPanicked
			}
		}()
		return f()
	}
}
