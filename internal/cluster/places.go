package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/node-dns/node-dns/internal/zone"
)

const (
	maxPlaces   = 1024             // addresses that are remembered
	placeKept   = 30 * time.Second // how long what was found at an address holds, which may be nothing
	placesAsked = 32               // addresses that wait for their turn
	seekers     = 2                // addresses that are sought at a time
	// seekPatience is how long a search may take. Who asked has given up by then.
	seekPatience = 10 * time.Second

	// A search costs the API server a look at every Pod, and what it sends: no field of a Pod but its node is indexed.
	// seekPrice and slicePrice are what a search and each slice that comes are counted as; what is sought of late may
	// be seekCredit, and goes down by a second each second. These are 40 addresses at once, and 4 a second. 10,000
	// slices are read every 90 s at most.
	seekPrice  = 250 * time.Millisecond
	slicePrice = 10 * time.Millisecond
	seekCredit = 10 * time.Second
)

var errTooManyPlaces = errors.New("too many addresses are asked for")

// places remembers which slices have the addresses that were asked for.
type places struct {
	mu     sync.Mutex // guards what follows
	byAddr map[netip.Addr]*place
	online bool
	paid   time.Time   // when what has been sought is paid off
	shed   uint64      // questions that were too many
	asked  chan *place // is sent to by want alone, which looks for room first
}

// place is what is known of one address.
type place struct {
	addr  netip.Addr
	ready chan struct{} // closed when there is an answer, which then does not change
	until time.Time     // how long that holds; guarded by places.mu. Zero: there is none yet

	slices []*zone.Slice // with the endpoints at the address, and no others
	err    error
}

func (p *places) init() {
	p.byAddr = make(map[netip.Addr]*place)
	p.asked = make(chan *place, placesAsked)
}

func (p *places) refused() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.shed
}

// At implements zone.Endpoints: it returns the slices that have the address, as they were up to placeKept ago.
func (w *Watcher) At(ctx context.Context, addr netip.Addr) ([]*zone.Slice, error) {
	if known := w.demands.at(addr); slices.ContainsFunc(known, isReady) || w.hasAllSlices() {
		return known, nil
	}
	of, err := w.places.want(addr, time.Now())
	if err != nil {
		return nil, fmt.Errorf("getting the endpoints at %s: %w", addr, err)
	}
	select {
	case <-of.ready:
		return of.slices, of.err
	case <-ctx.Done():
		return nil, fmt.Errorf("getting the endpoints at %s: %w", addr, ctx.Err())
	}
}

func isReady(s *zone.Slice) bool {
	return slices.ContainsFunc(s.Endpoints, func(e zone.Endpoint) bool { return e.Ready })
}

// want returns the place of an address, a new one when nothing is known of it.
func (p *places) want(addr netip.Addr, now time.Time) (*place, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if known := p.byAddr[addr]; known != nil && (known.until.IsZero() || now.Before(known.until)) {
		return known, nil
	}
	switch {
	case !p.online:
		return nil, errOffline
	case p.paid.Sub(now) > seekCredit, len(p.asked) == cap(p.asked):
		p.shed++
		return nil, errTooManyPlaces
	}
	if len(p.byAddr) >= maxPlaces {
		p.makeRoomLocked(now)
	}
	made := &place{addr: addr, ready: make(chan struct{})}
	p.byAddr[addr] = made
	p.asked <- made
	p.payLocked(now, seekPrice)
	return made, nil
}

// makeRoomLocked forgets what no longer holds, or else the oldest: most are not being sought.
func (p *places) makeRoomLocked(now time.Time) {
	var oldest *place
	for addr, of := range p.byAddr {
		switch {
		case of.until.IsZero():
		case !now.Before(of.until):
			delete(p.byAddr, addr)
		case oldest == nil || of.until.Before(oldest.until):
			oldest = of
		}
	}
	if len(p.byAddr) >= maxPlaces {
		delete(p.byAddr, oldest.addr)
	}
}

func (p *places) payLocked(now time.Time, price time.Duration) {
	if p.paid.Before(now) {
		p.paid = now
	}
	p.paid = p.paid.Add(price)
}

// affords reports whether a search is to be made that was asked for in time: what those before it have cost was not
// known then.
func (p *places) affords(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	affordable := p.paid.Sub(now) <= 2*seekCredit
	if !affordable {
		p.shed++
	}
	return affordable
}

// answer tells those who wait what there is at an address. A failure is not remembered.
func (p *places) answer(of *place, found []*zone.Slice, read int, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	p.payLocked(now, time.Duration(read)*slicePrice)
	of.slices, of.err, of.until = found, err, now.Add(placeKept)
	if err != nil {
		of.err = fmt.Errorf("getting the endpoints at %s: %w", of.addr, err)
		delete(p.byAddr, of.addr)
	}
	close(of.ready)
}

// serve seeks what is asked for, over one connection. isFirst tells an address that may be the first of a Pod.
func (p *places) serve(ctx context.Context, a *api, c Config, isFirst func(netip.Addr) bool) error {
	p.connect()
	defer p.disconnect()
	var group sync.WaitGroup
	for range seekers {
		group.Go(func() {
			s := seeker{api: a, isFirst: isFirst}
			for {
				select {
				case <-ctx.Done():
					return
				case of := <-p.asked:
					if !p.affords(time.Now()) {
						p.answer(of, nil, 0, errTooManyPlaces)
						continue
					}
					var found []*zone.Slice
					err := c.guard(func() (err error) {
						found, err = s.seek(ctx, of.addr)
						return err
					})()
					p.answer(of, found, s.read, err)
				}
			}
		})
	}
	group.Wait()
	return ctx.Err()
}

func (p *places) connect() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.online = true
}

// disconnect lets those go who wait for their turn, and forgets what may be another cluster's next.
func (p *places) disconnect() {
	p.mu.Lock()
	p.online = false
	p.mu.Unlock()
	for len(p.asked) > 0 { // nobody sends, and nobody else receives
		p.answer(<-p.asked, nil, 0, errOffline)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.byAddr)
}
