package dnsserver

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/node-dns/node-dns/internal/inflight"
)

// udpSocket is a bound UDP socket. Responses leave through the socket that the
// query came in on, and so from the address that was asked.
type udpSocket struct {
	s         *Server
	conn      *net.UDPConn
	raw       syscall.RawConn // the same
	local     netip.AddrPort
	queries   *inflight.Receiver // the receiver's
	buf       []byte             // likewise, for responses of Wire
	patience  patience           // likewise: for places
	stopping  atomic.Bool        // nothing more is received
	receiving sync.WaitGroup     // the receiver
	active    sync.WaitGroup     // every query in flight
	count     atomic.Uint64      // of datagrams
}

var _ socket = (*udpSocket)(nil)

func (s *Server) serveUDP(conn *net.UDPConn, raw syscall.RawConn, local netip.AddrPort) *udpSocket {
	u := &udpSocket{s: s, conn: conn, raw: raw, local: local, buf: make([]byte, bufferSize), queries: s.cfg.Queries.Receive(raw, local), patience: newPatience(time.Now())}
	u.receiving.Go(u.receive)
	return u
}

func (u *udpSocket) taken() uint64 { return u.count.Load() }

func (u *udpSocket) drain(ctx context.Context) error {
	defer u.conn.Close()
	return u.stop(ctx)
}

// stop is drain without the end: what is answered later than ctx ends can be sent.
func (u *udpSocket) stop(ctx context.Context) error {
	u.stopping.Store(true)
	u.conn.SetReadDeadline(time.Now())
	u.receiving.Wait() // it waits for nothing but the socket, now; only then no query is added any more
	return wait(ctx, &u.active)
}

// wait waits for a group until ctx ends. The goroutine it starts then lives
// until the group is done.
func wait(ctx context.Context, group *sync.WaitGroup) error {
	done := make(chan struct{})
	go func() {
		group.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// receive reads until the socket is drained.
func (u *udpSocket) receive() {
	defer u.queries.Release()
	for {
		wire, client, err := u.queries.Next()
		switch {
		case err == nil:
			if !u.received(wire, client) {
				u.queries.Done()
			}
		case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, net.ErrClosed):
			return
		default:
			// What the kernel reports here (ENOBUFS, ENOMEM, ENETDOWN) passes.
			time.Sleep(time.Millisecond)
		}
	}
}

// received takes one datagram, and reports whether it is still to be answered; it must not keep wire.
func (u *udpSocket) received(wire []byte, client netip.AddrPort) bool {
	u.s.counters.udpQueries.Add(1)
	u.count.Add(1)
	v, rcode := accept(wire)
	switch {
	case v == drop, client.Port() == 0: // nobody listens on port 0: a forged source
		u.s.counters.dropped.Add(1)
	case v == refuse:
		u.s.counters.refused.Add(1)
		u.send(errorReply(wire, rcode), client)
	default:
		return u.accepted(wire, client)
	}
	return false
}

// accepted answers at once, or has a goroutine do it, and then is true.
func (u *udpSocket) accepted(wire []byte, client netip.AddrPort) bool {
	x := exchange{wire, client, u.local, UDP}
	if response := u.s.onWire(x, u.buf); response != nil {
		u.send(response, client)
		return false
	}
	if !u.s.enter() && !u.waitToEnter() {
		u.send(u.s.shed(x, u.buf), client)
		return false
	}
	u.answerLater(exchange{slices.Clone(wire), client, u.local, UDP}, u.queries.Hold())
	return true
}

// waitToEnter waits for a place as long as its patience lasts. The last query before the socket stops enters without: a
// successor waits for the receiver.
func (u *udpSocket) waitToEnter() bool {
	began := time.Now()
	entered := u.s.waitToEnter(u.patience.at(began), &u.stopping)
	u.patience.spend(time.Since(began))
	return entered
}

// answerLater answers a query that has one of the MaxInFlight places.
func (u *udpSocket) answerLater(x exchange, held *inflight.Held) {
	u.active.Go(func() {
		defer u.s.leave()
		buf := u.s.buffers.Get().(*[]byte)
		defer u.s.buffers.Put(buf)
		response := u.s.serve(x, *buf)
		if u.s.left.Load() {
			return // the successor answers it
		}
		u.send(response, x.client)
		held.Done()
	})
}

func (u *udpSocket) send(response []byte, client netip.AddrPort) {
	if response == nil {
		return
	}
	if _, err := u.conn.WriteToUDPAddrPort(response, client); err != nil {
		u.s.counters.writeErrors.Add(1)
	}
}
