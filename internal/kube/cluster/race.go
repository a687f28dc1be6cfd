package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"
)

const (
	// attemptDelay is the Connection Attempt Delay of RFC 8305 section 5.
	attemptDelay = 250 * time.Millisecond
	// attemptTimeout bounds one connection attempt. Linux repeats a SYN after 1 and 3 s.
	attemptTimeout = 5 * time.Second
	// maxAddrs bounds how many addresses of one host are tried.
	maxAddrs = 8
)

// racer connects to the first address of the API server that accepts (Happy Eyeballs, RFC 8305). It
// is safe for concurrent use. The zero value has no history yet.
type racer struct {
	lookup func(ctx context.Context, host string) ([]netip.Addr, error)         // nil if dial resolves names
	dial   func(ctx context.Context, network, address string) (net.Conn, error) // nil means a net.Dialer

	mu   sync.Mutex              // guards the fields below
	last netip.Addr              // last address that connected
	many bool                    // the host has more than one address
	good netip.Addr              // last address that answered
	bad  map[netip.Addr]struct{} // addresses that connected, but have not answered since
}

// Dial implements rest.Config.Dial.
func (r *racer) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	if _, err := netip.ParseAddr(host); err != nil && r.lookup == nil {
		return r.dialOne(ctx, network, address) // a net.Dialer already races the addresses that it looks up
	}
	addrs, err := r.addrsOf(ctx, host)
	if err != nil {
		return nil, fmt.Errorf("looking up %s: %w", host, err)
	}
	if len(addrs) == 0 {
		return nil, fmt.Errorf("looking up %s: no addresses", host)
	}
	r.mu.Lock()
	addrs = inOrder(addrs, r.good, r.bad)
	r.many = len(addrs) > 1
	r.mu.Unlock()
	conn, winner, err := r.race(ctx, network, addrs[:min(len(addrs), maxAddrs)], port)
	if err == nil {
		r.mu.Lock()
		r.last = winner
		r.mu.Unlock()
	}
	return conn, err
}

func (r *racer) addrsOf(ctx context.Context, host string) ([]netip.Addr, error) {
	if addr, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{addr}, nil
	}
	return r.lookup(ctx, host)
}

// judge records whether the server at the last connected address has answered. An address that
// accepts connections but does not answer, such as a load balancer without a server behind it, is
// tried after the others. judge reports whether there are others.
func (r *racer) judge(answers bool) (hasOthers bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case !r.last.IsValid():
	case answers:
		r.good = r.last
		delete(r.bad, r.last)
	default:
		if r.bad == nil || len(r.bad) > maxAddrs { // addresses of long ago
			r.bad = map[netip.Addr]struct{}{}
		}
		r.bad[r.last] = struct{}{}
	}
	return r.many
}

// inOrder returns the addresses in the order of the attempts: the one that answered last, then the
// two families alternating (RFC 8305 section 4), then those that did not answer.
func inOrder(addrs []netip.Addr, good netip.Addr, bad map[netip.Addr]struct{}) []netip.Addr {
	type place struct {
		addr  netip.Addr
		class int // 0 good, 1 unknown, 2 bad
		turn  int // position among those of its family
	}
	var places []place
	seen := map[netip.Addr]bool{}
	families := map[bool]int{}
	for _, addr := range addrs {
		addr = addr.Unmap()
		if seen[addr] {
			continue
		}
		seen[addr] = true
		p := place{addr: addr, class: 1, turn: families[addr.Is4()]}
		families[addr.Is4()]++
		if _, isBad := bad[addr]; isBad {
			p.class = 2
		} else if addr == good {
			p.class = 0
		}
		places = append(places, p)
	}
	slices.SortStableFunc(places, func(a, b place) int {
		return cmp.Or(cmp.Compare(a.class, b.class), cmp.Compare(a.turn, b.turn))
	})
	ordered := make([]netip.Addr, len(places))
	for i, p := range places {
		ordered[i] = p.addr
	}
	return ordered
}

type attempt struct {
	conn net.Conn
	addr netip.Addr
	err  error
}

// race starts an attempt for each address in order: the next one when an attempt fails, or after
// attemptDelay. The first connection wins, and the other attempts are canceled. If all fail, the
// error contains the error of each address.
func (r *racer) race(ctx context.Context, network string, addrs []netip.Addr, port string) (net.Conn, netip.Addr, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan attempt, len(addrs))
	start := func(addr netip.Addr) {
		ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
		defer cancel()
		conn, err := r.dialOne(ctx, network, net.JoinHostPort(addr.String(), port))
		ended <- attempt{conn, addr, err}
	}
	next := time.NewTimer(0)
	defer next.Stop()
	var errs []error
	for started := 0; len(errs) < len(addrs); {
		select {
		case <-next.C:
			if started < len(addrs) {
				go start(addrs[started])
				started++
				next.Reset(attemptDelay)
			}
		case a := <-ended:
			if a.err == nil {
				go closeOthers(ended, started-len(errs)-1)
				return a.conn, a.addr, nil
			}
			errs = append(errs, a.err)
			next.Reset(0)
		}
	}
	return nil, netip.Addr{}, errors.Join(errs...)
}

func (r *racer) dialOne(ctx context.Context, network, address string) (net.Conn, error) {
	if r.dial != nil {
		return r.dial(ctx, network, address)
	}
	var dialer net.Dialer
	return dialer.DialContext(ctx, network, address)
}

// closeOthers closes connections that were made after the winner. Each attempt ends soon, because
// its context is canceled.
func closeOthers(ended <-chan attempt, left int) {
	for range left {
		if a := <-ended; a.err == nil {
			a.conn.Close()
		}
	}
}
