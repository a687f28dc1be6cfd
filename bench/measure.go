package main

import (
	"context"
	"fmt"

	"github.com/node-dns/node-dns/bench/result"
)

// bench holds the state of a benchmark run.
type bench struct {
	place    place
	settings result.Settings
	cpus     []int
	upstream *server
	tls      tlsUpstream
	api      api
	files    map[string]bool // query files already written
	profiles string          // directory for profiles of the servers; "" disables profiling
}

const (
	warmup    = 1.0 // seconds of warm-up before a server's first slice
	leadIn    = 0.2 // seconds of load before each slice, because the server has been idle
	onceLimit = 60  // timeout in seconds for a pass of unique names
)

// slice identifies a measurement of a server. Each slice of a round, and each try, has its own
// names if names must be new.
type slice struct{ round, try int }

func (s slice) String() string { return fmt.Sprintf("%d-%d", s.round, s.try) }

// try measures one slice of a server, and starts the server if needed.
func (b *bench) try(ctx context.Context, w workload, c *contender, at slice) (run result.Run, err error) {
	if err := b.prepare(w, c); err != nil {
		return run, err
	}
	s := c.server
	if w.memory {
		if run.HitsMB, err = memoryOf("VmRSS", s.pids()...); err != nil {
			return run, err
		}
		if err := forgetPeak(s.pids()...); err != nil {
			return run, err
		}
	}
	if w.bad {
		done := badClients(ctx, s.address(), w.rate)
		defer done()
	}
	defer s.stopNeighbors()
	if err := s.setNeighbors(b.place.dir, w.neighbors); err != nil {
		return run, err
	}
	if err := b.leadIn(w, s, at); err != nil {
		return run, err
	}
	if err := b.observe(w, s, at, &run); err != nil {
		return run, err
	}
	if w.resident {
		if run.HitsMB, err = memoryOf("VmRSS", s.pids()...); err != nil {
			return run, err
		}
	}
	if w.memory {
		run.Names = run.Sent
		run.MissesMB, err = memoryOf("VmHWM", s.pids()...)
	}
	return run, err
}

// prepare starts and warms up a contender's server if it is not running.
func (b *bench) prepare(w workload, c *contender) (err error) {
	if c.server != nil {
		return nil
	}
	if c.server, err = b.start(w, c.peer); err != nil {
		return err
	}
	if err := b.warm(w, c.server); err != nil {
		c.stop()
		return err
	}
	return nil
}

// start starts a peer's server for a workload and waits until it answers.
func (b *bench) start(w workload, p peer) (s *server, err error) {
	names, kubeconfig := []string{"h00000.example.com"}, []byte(nil)
	if w.cluster {
		names = append(names, service(0), service(services-1))
		if kubeconfig, err = b.api.kubeconfig(); err != nil {
			return nil, err
		}
	}
	v := values{Upstream: b.upstream.port, CacheSize: cacheSize}
	if w.cache > 0 {
		v.CacheSize = w.cache
	}
	if w.tls {
		if err := b.tls.start(b.place, b.upstream.port); err != nil {
			return nil, err
		}
		v.Upstream, v.CA = b.tls.port, b.tls.ca
	}
	v.Addresses = loopback(1)
	if !p.oneAddress {
		v.Addresses = loopback(w.asked())
	}
	at := b.place
	if w.inCgroup() {
		group, err := newCgroup(w.cores)
		if err != nil {
			return nil, err
		}
		at = at.in(group)
	}
	if s, err = at.serve(p, v, kubeconfig, names...); err != nil {
		at.group.remove()
		return nil, err
	}
	for i := range w.asked() {
		s.asked = append(s.asked, v.Addresses[i%len(v.Addresses)])
	}
	return s, nil
}

// loopback returns the first n addresses of 127.0.0.0/8.
func loopback(n int) (addresses []string) {
	for i := range n {
		addresses = append(addresses, fmt.Sprintf("127.0.0.%d", i+1))
	}
	return addresses
}

// warm sends each query for the names to cache once, and then the workload's own queries.
func (b *bench) warm(w workload, s *server) error {
	if err := b.remember(w, s); err != nil || w.once {
		return err
	}
	return b.unmeasured(w, s, "warm", warmup)
}

// leadIn brings a server that was idle back to the state for a measurement.
func (b *bench) leadIn(w workload, s *server, at slice) error {
	switch {
	case w.once:
		return nil
	case w.forgets:
		if err := b.remember(w, s); err != nil {
			return err
		}
	}
	return b.unmeasured(w, s, "lead-in-"+at.String(), leadIn)
}

// remember sends each query for the names to cache once. It uses UDP, because some servers forward
// TCP queries over TCP.
func (b *bench) remember(w workload, s *server) error {
	if w.before == nil {
		return nil
	}
	l := w.loadOf(s)
	l.rate, l.tcp, l.short, l.limit, l.gently = 0, false, false, onceLimit, true
	l.addresses = l.addresses[:1]
	if err := b.write(&l, w.Name+".before", w.before); err != nil {
		return err
	}
	_, _, err := b.clients(l)
	return err
}

// unmeasured sends a workload's queries for some seconds without measuring.
func (b *bench) unmeasured(w workload, s *server, series string, seconds float64) error {
	l, err := b.ask(w, s, series, seconds)
	if err != nil {
		return err
	}
	_, _, err = b.clients(l)
	return err
}
