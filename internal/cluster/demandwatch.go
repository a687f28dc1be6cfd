package cluster

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/node-dns/node-dns/internal/kubewire"
	"github.com/node-dns/node-dns/internal/zone"
)

// serve watches what is asked for, over one connection.
func (d *demands) serve(ctx context.Context, a *api, c Config) error {
	d.connect()
	defer d.disconnect()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(c.guard(func() error {
		sweep := time.NewTicker(demandSweep)
		defer sweep.Stop()
		for {
			for _, begin := range d.pending(ctx) {
				group.Go(c.guard(func() error { return begin(a, c) }))
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-d.wake:
			case <-sweep.C:
				d.sweep()
			}
		}
	}))
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
	for _, of := range d.byKey {
		if time.Since(of.asked) >= demandIdle {
			d.endLocked(of, errOffline)
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
