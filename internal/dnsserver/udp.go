package dnsserver

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"time"
)

// udpSocket is a bound UDP socket. Responses leave through the socket that the
// query came in on, and so from the address that was asked.
type udpSocket struct {
	s      *Server
	conn   *net.UDPConn
	local  netip.AddrPort
	buf    []byte         // the receiver's, for responses of Wire
	active sync.WaitGroup // the receiver, and every query in flight
}

var _ socket = (*udpSocket)(nil)

func (s *Server) serveUDP(conn *net.UDPConn, local netip.AddrPort) *udpSocket {
	u := &udpSocket{s: s, conn: conn, local: local, buf: make([]byte, bufferSize)}
	u.active.Go(u.receive)
	return u
}

func (u *udpSocket) drain(ctx context.Context) error {
	defer u.conn.Close()
	u.conn.SetReadDeadline(time.Now())
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

// receive reads until the socket is drained. The buffer takes the largest
// datagram there is, so that none is cut and taken for a shorter one.
func (u *udpSocket) receive() {
	buf := make([]byte, 1<<16)
	for {
		n, client, err := u.conn.ReadFromUDPAddrPort(buf)
		switch {
		case err == nil:
			u.received(buf[:n], netip.AddrPortFrom(client.Addr().Unmap(), client.Port()))
		case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, net.ErrClosed):
			return
		default:
			// What the kernel reports here (ENOBUFS, ENOMEM, ENETDOWN) passes.
			time.Sleep(time.Millisecond)
		}
	}
}

// received takes one datagram; it must not keep wire.
func (u *udpSocket) received(wire []byte, client netip.AddrPort) {
	u.s.counters.udpQueries.Add(1)
	v, rcode := accept(wire)
	switch {
	case v == drop, client.Port() == 0: // nobody listens on port 0: a forged source
		u.s.counters.dropped.Add(1)
	case v == refuse:
		u.s.counters.refused.Add(1)
		u.send(errorReply(wire, rcode), client)
	default:
		u.accepted(wire, client)
	}
}

func (u *udpSocket) accepted(wire []byte, client netip.AddrPort) {
	x := exchange{wire, client, u.local, UDP}
	if response := u.s.onWire(x, u.buf); response != nil {
		u.send(response, client)
		return
	}
	if !u.s.enter() {
		u.send(u.s.shed(x, u.buf), client)
		return
	}
	kept := exchange{slices.Clone(wire), client, u.local, UDP}
	u.active.Go(func() { u.answer(kept) })
}

func (u *udpSocket) answer(x exchange) {
	defer u.s.leave()
	buf := u.s.buffers.Get().(*[]byte)
	defer u.s.buffers.Put(buf)
	u.send(u.s.serve(x, *buf), x.client)
}

func (u *udpSocket) send(response []byte, client netip.AddrPort) {
	if response == nil {
		return
	}
	if _, err := u.conn.WriteToUDPAddrPort(response, client); err != nil {
		u.s.counters.writeErrors.Add(1)
	}
}
