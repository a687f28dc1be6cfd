package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/node-dns/node-dns/internal/zone"
)

const (
	maxDemands  = 64
	demandIdle  = 5 * time.Minute // without a question the slices of a Service are no longer watched
	demandSweep = 30 * time.Second
	// demandBusy is how long after a question the slices of a Service do not give way to another's: clients that go on
	// asking do so each 5 s, by the TTL. It also bounds what is listed: 6 Services a second.
	demandBusy = 10 * time.Second
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
	shed   uint64        // questions that there was no room for
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

func (d *demands) stats() (count int, shed uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.byKey), d.shed
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

// at returns the slices that are known and have the address, with no other endpoints.
func (d *demands) at(addr netip.Addr) (found []*zone.Slice) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, of := range d.byKey {
		for _, s := range of.slices {
			if at := endpointsAt(s, addr); at != nil {
				found = append(found, at)
			}
		}
	}
	return found
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
	case len(d.byKey) >= maxDemands && !d.makeRoomLocked():
		d.shed++
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

// makeRoomLocked ends the demand that was asked for longest ago, unless that is of late.
func (d *demands) makeRoomLocked() bool {
	var oldest *demand
	for _, of := range d.byKey {
		if oldest == nil || of.asked.Before(oldest.asked) {
			oldest = of
		}
	}
	if time.Since(oldest.asked) < demandBusy {
		return false
	}
	d.endLocked(oldest, errTooManyDemands)
	return true
}

// endLocked forgets a demand. Who still waits for it gets err.
func (d *demands) endLocked(of *demand, err error) {
	if of.stop != nil {
		of.stop()
	}
	of.answerLocked(err)
	delete(d.byKey, of.key)
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
