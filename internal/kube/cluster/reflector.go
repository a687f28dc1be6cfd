package cluster

import (
	"context"
	"errors"
	"io"
	"strconv"
	"time"

	"github.com/node-dns/node-dns/internal/kube/kubewire"
	"github.com/node-dns/node-dns/internal/sys/supervise"
)

// sink takes a report. It returns an error when no more reports are wanted.
type sink func(r report) error

// reflector reports the state of one source to a sink, from a list and then from watches. It is not
// safe for concurrent use.
type reflector struct {
	source  source
	api     *api
	decoder *kubewire.Decoder
	sink    sink
	chance  func() float64
	guard   func(func() error) func() error

	state        turn
	compareEvery time.Duration
	compareAt    time.Time
	objects      int // in the last list
}

func newReflector(a *api, s source, position uint64, to sink, c Config) *reflector {
	r := &reflector{
		source: s, api: a, decoder: kubewire.NewDecoder(s.kind), sink: to, chance: c.Chance, guard: c.guard,
		compareEvery: c.CompareEvery, state: turn{do: list, position: position},
	}
	if position > 0 {
		r.state.do, r.state.unsure = watch, true
	}
	r.planCompare()
	return r
}

// planCompare spreads the compare times of many nodes over half to one and a half of the interval.
func (r *reflector) planCompare() {
	r.compareAt = time.Now().Add(time.Duration((0.5 + r.chance()) * float64(r.compareEvery)))
}

// run runs until ctx ends and then returns nil. It returns an error only if the server does not
// have the API.
func (r *reflector) run(ctx context.Context) error {
	for {
		began := time.Now()
		outcome := r.take(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if isMissing(outcome.err) {
			return outcome.err
		}
		outcome.lasted = time.Since(began)
		outcome.compare = !time.Now().Before(r.compareAt)
		next, wait := r.state.next(outcome, r.objects)
		if outcome.err != nil && next.failures > 0 {
			if err := r.sink(report{source: r.source, step: broken, err: outcome.err}); err != nil {
				return nil // the caller has stopped listening
			}
		}
		if next.do == compare {
			r.planCompare()
		}
		if next.newest && !r.state.newest {
			if err := r.sink(report{source: r.source, step: rewound, version: outcome.version}); err != nil {
				return nil // the caller has stopped listening
			}
		}
		r.state = next
		if !supervise.Sleep(ctx, wait.pick(r.chance())) {
			return nil
		}
	}
}

// isMissing reports whether the API does not have the resource. The caller of run handles that.
func isMissing(err error) bool { return hasCode(err, 404) }

func (r *reflector) take(ctx context.Context) outcome {
	switch r.state.do {
	case check:
		return r.check(ctx)
	case watch:
		return r.watch(ctx)
	case compare:
		return r.list(ctx, comparing)
	default:
		return r.list(ctx, listing)
	}
}

// check gets the server's version, to find out whether the server is behind.
func (r *reflector) check(ctx context.Context) outcome {
	version, err := r.serverVersion(ctx)
	return outcome{version: version, err: err}
}

func (r *reflector) list(ctx context.Context, as step) outcome {
	query := r.source.query()
	if !r.state.newest {
		// Let the watch cache answer instead of etcd. Require at least position, because another
		// server may be behind the last one.
		query.Set("resourceVersion", formatVersion(r.state.position))
	}
	answer, err := r.api.get(ctx, "list", r.source, query)
	if err != nil {
		return outcome{err: err}
	}
	defer answer.close()
	if err := r.sink(report{source: r.source, step: as}); err != nil {
		return outcome{err: err}
	}
	objects := 0
	version, err := r.decoder.List(answer, answer.format, func(o kubewire.Object) error {
		objects++
		return r.sink(report{source: r.source, step: listed, object: o})
	})
	if err != nil {
		return outcome{err: err}
	}
	r.objects = objects
	return outcome{version: version, err: r.sink(report{source: r.source, step: complete, version: version})}
}

const minWatch = 5 * time.Minute

// watch reports changes after position until the server ends the watch. The timeout is random, so
// that the watches of many nodes do not end at the same time.
func (r *reflector) watch(ctx context.Context) outcome {
	lasts := time.Duration((1 + r.chance()) * float64(minWatch)).Truncate(time.Second)
	query := r.source.query()
	query.Set("watch", "1")
	query.Set("allowWatchBookmarks", "true")
	query.Set("resourceVersion", formatVersion(r.state.position))
	query.Set("timeoutSeconds", strconv.Itoa(int(lasts/time.Second)))
	ctx, cancel := context.WithTimeoutCause(ctx, lasts+patience, errStalled)
	defer cancel()
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	began := time.Now()
	answer, err := r.api.get(ctx, "watch", r.source, query)
	if err != nil {
		return outcome{version: r.state.position, err: err}
	}
	defer answer.close()
	answer.allowSilence()
	if err := r.sink(report{source: r.source, step: watching}); err != nil {
		return outcome{err: err}
	}
	stopPulse := r.pulseBeside(ctx, answer, end)
	defer stopPulse()
	stop := func() uint64 { return r.state.position }
	if r.state.unsure {
		stop = r.checkBeside(ctx, end)
	}
	events := r.decoder.Watch(answer, answer.format)
	position := r.state.position
	for {
		event, err := events.Next()
		if err == nil && event.Type == kubewire.Bookmark {
			answer.hasBookmarks.Store(true)
		}
		if err == nil {
			err = r.tell(event)
		}
		if errors.Is(err, io.EOF) && time.Since(began) < lasts-time.Second {
			err = errEndedEarly
		} else if errors.Is(err, io.EOF) {
			err = nil
		} else if err == nil {
			position = max(position, event.Object.Version)
			continue
		}
		checked := stop()
		if 0 < checked && checked < r.state.position {
			return outcome{version: checked, err: errRewound}
		}
		return outcome{version: position, err: err, isSure: checked > 0 || position > r.state.position}
	}
}

func (r *reflector) tell(e kubewire.Event) error {
	to := report{source: r.source, object: e.Object}
	switch e.Type {
	case kubewire.Set:
		to.step = changed
	case kubewire.Deleted:
		to.step = deleted
	case kubewire.Bookmark:
		to.step, to.version = reached, e.Object.Version
	case kubewire.Failed:
		return &statusError{Status: e.Status, right: rightTo("watch", r.source)}
	}
	return r.sink(to)
}
