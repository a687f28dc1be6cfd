package dnsserver

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/sys/rawsock"
)

const (
	// firstLook is the pause before a queue that has work is looked at again. The pause doubles up
	// to longestLook.
	firstLook   = time.Millisecond
	longestLook = 50 * time.Millisecond
)

// Alive is the watchdog's health check. It reads the state of the server's queues in the kernel and
// sends nothing, so it wakes none of the server's goroutines.
type Alive struct {
	queues  func() []queue
	handler Handler
}

// Alive returns the health check for the server's listeners. Check calls handler like a receiver
// does.
func (s *Server) Alive(handler Handler) *Alive { return &Alive{s.queues, handler} }

// Check fails if a listener hangs for as long as limit: clients' queries wait and none is read, or
// queries that were read are not finished. A query that waits unread is therefore found by the
// check after its arrival. A listener without work is not a failure, because nothing shows whether
// it hangs. Check does not return while the Handler hangs.
func (a *Alive) Check(ctx context.Context, limit time.Duration) error {
	end := time.Now().Add(limit)
	if err := ask(ctx, a.handler); err != nil {
		return fmt.Errorf("answering the watchdog's query: %w", err)
	}
	busy := withWork(a.queues())
	if len(busy) == 0 {
		return nil
	}
	ctx, cancel := context.WithDeadline(ctx, end)
	defer cancel()
	for pause := firstLook; len(busy) > 0; pause = min(2*pause, longestLook) {
		select {
		case <-ctx.Done():
			return errorOf(busy, limit)
		case <-time.After(pause):
		}
		busy = unchanged(busy, withWork(a.queues()))
	}
	return nil
}

// ask sends the Handler a query that it answers without upstreams.
func ask(ctx context.Context, handler Handler) error {
	query := new(dns.Msg).SetQuestion("version.bind.", dns.TypeTXT)
	query.Question[0].Qclass = dns.ClassCHAOS
	loopback := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), 53)
	_, err := handler.ServeDNS(ctx, &Query{Msg: query, Client: loopback, Local: loopback, Proto: UDP})
	return err
}

// queue is the state of what one or more goroutines of the server must read: a UDP socket, a
// listening TCP socket, or the connections of a loop.
type queue struct {
	of   any // identifies the queue
	name string
	fd   int // readable while something waits

	waits bool   // something waits unread
	inUse bool   // something was read and is not finished
	taken uint64 // grows while the queue is read
}

// queues returns the queues of the current listeners. A listener that is not bound, or that drains,
// has none.
func (s *Server) queues() []queue {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []queue
	for _, b := range s.bindings {
		if b.socket == nil {
			continue
		}
		first := len(all)
		all = b.socket.appendQueues(all)
		for i := range all[first:] {
			all[first+i].name = string(b.proto) + " " + b.actual.String()
		}
	}
	return all
}

func (all udpSockets) appendQueues(queues []queue) []queue {
	for _, u := range all {
		queues = append(queues, queue{of: u, fd: u.file.fd, inUse: u.file.isInUse(), taken: u.tally.udpQueries.Load() + u.tally.own.Load()})
	}
	return queues
}

func (t *tcpSocket) appendQueues(queues []queue) []queue {
	// Connections that were closed for lack of descriptors were taken, too.
	queues = append(queues, queue{of: t, fd: t.fd, taken: t.count.Load() + t.s.counters.tcpStarved.Load()})
	for _, l := range t.loops {
		queues = append(queues, queue{of: l, fd: l.epoll, inUse: l.isServing.Load(), taken: l.turns.Load()})
	}
	return queues
}

// withWork returns the queues that have work, with waits set.
func withWork(all []queue) []queue {
	fds := make([]int, len(all))
	for i, q := range all {
		fds[i] = q.fd
	}
	readable := rawsock.Readable(fds)
	var busy []queue
	for i, q := range all {
		if q.waits = readable[i]; q.waits || q.inUse {
			busy = append(busy, q)
		}
	}
	return busy
}

// unchanged returns the queues of before that still have work and were not read since.
func unchanged(before, now []queue) []queue {
	return slices.DeleteFunc(before, func(q queue) bool {
		return !slices.ContainsFunc(now, func(other queue) bool { return other.of == q.of && other.taken == q.taken })
	})
}

// errorOf describes the queues that hang.
func errorOf(hung []queue, limit time.Duration) error {
	var errs []error
	var named []string
	for _, q := range hung {
		if slices.Contains(named, q.name) {
			continue
		}
		named = append(named, q.name)
		what := "does not finish a query"
		if q.waits {
			what = "does not read its queries"
		}
		errs = append(errs, fmt.Errorf("listener %s %s within %v", q.name, what, limit))
	}
	return errors.Join(errs...)
}
