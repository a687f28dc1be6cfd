package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/node-dns/node-dns/internal/kubewire"
	"github.com/node-dns/node-dns/internal/zone"
)

const (
	maxDemands  = 64
	demandIdle  = 5 * time.Minute // without a question the slices of a Service are no longer watched
	demandSweep = 30 * time.Second
)

var (
	errTooManyDemands = errors.New("the endpoints of too many services are asked for")
	errOffline        = errors.New("the API server is not connected")
)

// demands are the Services whose slices are watched because somebody asked for them: those of ClusterIP Services are
// nine of ten slices of a cluster, and almost no query needs one.
type demands struct {
	mu     sync.Mutex // guards what follows
	byKey  map[zone.Key]*demand
	online bool
	wake   chan struct{} // there is a new demand; holds one
}

// demand is one of them.
type demand struct {
	key   zone.Key
	asked time.Time          // last
	stop  context.CancelFunc // ends its reflector; nil: none runs
	ready chan struct{}      // closed when there is an answer

	slices map[zone.Key]*zone.Slice // nil: they are not known
	err    error                    // why they are not known
	next   map[zone.Key]*zone.Slice // of the list that is being read
}

func (d *demands) init() {
	d.byKey = make(map[zone.Key]*demand)
	d.wake = make(chan struct{}, 1)
}

func (d *demands) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.byKey)
}

// Of implements zone.Endpoints: it returns the slices of a Service, from a watch that goes on while they are asked for.
func (w *Watcher) Of(ctx context.Context, service zone.Key) ([]*zone.Slice, error) {
	if latest := w.latest.Load(); latest != nil && w.hasAllSlices() {
		return latest.SlicesOf(service), nil
	}
	d, err := w.demands.want(service)
	if err != nil {
		return nil, fmt.Errorf("getting the endpoints of %s/%s: %w", service.Namespace, service.Name, err)
	}
	select {
	case <-d.ready:
		return w.demands.result(d)
	case <-ctx.Done():
		return nil, fmt.Errorf("getting the endpoints of %s/%s: %w", service.Namespace, service.Name, ctx.Err())
	}
}

// At implements zone.Endpoints. The API finds no slice by an address, so only those count that are known already.
func (w *Watcher) At(_ context.Context, addr netip.Addr) ([]*zone.Slice, error) {
	w.demands.mu.Lock()
	defer w.demands.mu.Unlock()
	var found []*zone.Slice
	for _, d := range w.demands.byKey {
		for _, s := range d.slices {
			if slices.ContainsFunc(s.Endpoints, func(e zone.Endpoint) bool { return e.Addr == addr }) {
				found = append(found, s)
			}
		}
	}
	return found, nil
}

// want returns the demand for a Service, a new one when there is none.
func (d *demands) want(service zone.Key) (*demand, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if known := d.byKey[service]; known != nil {
		known.asked = time.Now()
		return known, nil
	}
	switch {
	case !d.online:
		return nil, errOffline
	case len(d.byKey) >= maxDemands:
		return nil, errTooManyDemands
	}
	made := &demand{key: service, asked: time.Now(), ready: make(chan struct{})}
	d.byKey[service] = made
	select {
	case d.wake <- struct{}{}:
	default:
	}
	return made, nil
}

func (d *demands) result(of *demand) ([]*zone.Slice, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if of.slices == nil {
		return nil, of.err
	}
	all := make([]*zone.Slice, 0, len(of.slices))
	for _, s := range of.slices {
		all = append(all, s)
	}
	return all, nil
}

// hasAllSlices reports whether every slice is in the Snapshot.
func (w *Watcher) hasAllSlices() bool {
	return w.config.Features.AllSlices || w.old.Load()
}

// serve watches what is asked for, over one connection.
func (d *demands) serve(ctx context.Context, a *api, has shape, c Config) error {
	if has == endpointsShape || c.Features.AllSlices {
		<-ctx.Done()
		return ctx.Err()
	}
	d.connect()
	defer d.disconnect()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		sweep := time.NewTicker(demandSweep)
		defer sweep.Stop()
		for {
			for _, begin := range d.pending(ctx) {
				group.Go(func() error { return begin(a, c) })
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-d.wake:
			case <-sweep.C:
				d.sweep()
			}
		}
	})
	return group.Wait()
}

func (d *demands) connect() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.online = true
}

// disconnect lets those go who wait for an answer. What is known stays, and is watched again by the next connection.
func (d *demands) disconnect() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.online = false
	for key, of := range d.byKey {
		of.stop = nil
		if of.slices == nil {
			of.answerLocked(errOffline)
			delete(d.byKey, key)
		}
	}
}

// sweep ends what has not been asked for of late.
func (d *demands) sweep() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for key, of := range d.byKey {
		if time.Since(of.asked) >= demandIdle {
			of.stop()
			of.answerLocked(errOffline)
			delete(d.byKey, key)
		}
	}
}

// pending returns what starts and runs the reflectors of the demands that have none.
func (d *demands) pending(ctx context.Context) []func(*api, Config) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	var all []func(*api, Config) error
	for _, of := range d.byKey {
		if of.stop != nil {
			continue
		}
		within, stop := context.WithCancel(ctx)
		of.stop = stop
		all = append(all, func(a *api, c Config) error {
			defer stop()
			return d.follow(within, of, a, c)
		})
	}
	return all
}

// follow has a demand know its slices until ctx ends.
func (d *demands) follow(ctx context.Context, of *demand, a *api, c Config) error {
	s := source{kind: kubewire.EndpointSlices, namespace: of.key.Namespace, labels: serviceLabel + "=" + of.key.Name}
	c.CompareEvery = 0
	r := newReflector(a, s, 0, func(r report) error {
		d.apply(of, r)
		return ctx.Err()
	}, c)
	if err := r.run(ctx); err != nil {
		d.apply(of, report{step: broken, err: err})
	}
	return nil
}

// apply takes a report on the slices of a demand.
func (d *demands) apply(of *demand, r report) {
	d.mu.Lock()
	defer d.mu.Unlock()
	slice, isSlice := r.object.Value.(*zone.Slice)
	switch r.step {
	case listing:
		of.next = make(map[zone.Key]*zone.Slice)
	case listed:
		if isSlice {
			of.next[r.object.Key] = slice
		}
	case complete:
		of.slices, of.next = of.next, nil
		of.answerLocked(nil)
	case changed:
		delete(of.slices, r.object.Key)
		if isSlice {
			of.slices[r.object.Key] = slice
		}
	case deleted:
		delete(of.slices, r.object.Key)
	case broken:
		if of.slices == nil {
			of.answerLocked(r.err)
		}
	}
}

// answerLocked lets those go on who wait.
func (of *demand) answerLocked(err error) {
	of.err = err
	select {
	case <-of.ready:
	default:
		close(of.ready)
	}
}
