package dnstest

import (
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const (
	maxInFlight  = 20_000 // at this limit, the sockets are not read
	maxDatagram  = 65_535
	pairAttempts = 64 // attempts to find a port that is free for UDP and TCP
)

// sockets are the open sockets between Up and Down, and their goroutines.
type sockets struct {
	udp      *net.UDPConn // nil for TLS
	listener net.Listener
	done     chan struct{}
	slots    chan struct{}
	running  sync.WaitGroup

	mu    sync.Mutex // guards conns
	conns map[net.Conn]struct{}
}

func (s *Server) bindLocked() error {
	open, addr, err := bind(s.addr, s.secure)
	if err != nil {
		return err
	}
	s.sockets, s.addr = open, addr
	if open.udp != nil {
		open.running.Go(func() { s.serveUDP(open) })
	}
	open.running.Go(func() { s.serveTCP(open) })
	return nil
}

func bind(addr netip.AddrPort, secure *tls.Config) (*sockets, netip.AddrPort, error) {
	family := "6"
	if addr.Addr().Is4() {
		family = "4"
	}
	for attempt := 1; ; attempt++ {
		listener, err := net.ListenTCP("tcp"+family, net.TCPAddrFromAddrPort(addr))
		if err != nil {
			return nil, addr, fmt.Errorf("binding TCP: %w", err)
		}
		bound := netip.AddrPortFrom(addr.Addr(), listener.Addr().(*net.TCPAddr).AddrPort().Port())
		open := &sockets{
			listener: listener, done: make(chan struct{}), slots: make(chan struct{}, maxInFlight), conns: map[net.Conn]struct{}{},
		}
		if secure != nil {
			open.listener = tls.NewListener(listener, secure)
			return open, bound, nil
		}
		open.udp, err = net.ListenUDP("udp"+family, net.UDPAddrFromAddrPort(bound))
		switch {
		case err == nil:
			if err := setReceiveBuffer(open.udp, serverBuffer); err != nil {
				listener.Close()
				open.udp.Close()
				return nil, addr, err
			}
			return open, bound, nil
		case addr.Port() != 0 || attempt == pairAttempts || !errors.Is(err, syscall.EADDRINUSE):
			listener.Close()
			return nil, addr, fmt.Errorf("binding UDP: %w", err)
		}
		listener.Close()
	}
}

// serverBuffer holds the queries of a second and more, while other processes keep the test's from
// the CPU.
const serverBuffer = 4 << 20

// setReceiveBuffer sets the size of a socket's receive buffer. Without root, the kernel caps it at
// net.core.rmem_max.
func setReceiveBuffer(conn *net.UDPConn, size int) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	return raw.Control(func(fd uintptr) {
		if unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, size) != nil {
			_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, size)
		}
	})
}

// close stops reading first, so that pending datagrams are still sent before the socket closes. TCP
// connections close first, because a client that does not read could block them forever.
func (o *sockets) close() {
	close(o.done)
	if o.udp != nil {
		_ = o.udp.SetReadDeadline(time.Unix(1, 0)) // fails only if it is closed
	}
	o.listener.Close()
	o.closeConns()
	o.running.Wait()
	if o.udp != nil {
		o.udp.Close()
	}
}

func (o *sockets) closeConns() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for conn := range o.conns {
		abandon(conn)
	}
}

// abandon closes a connection without waiting for a TLS close_notify.
func abandon(conn net.Conn) {
	if secured, ok := conn.(*tls.Conn); ok {
		conn = secured.NetConn()
	}
	conn.Close()
}

// keep registers a connection. It returns false if the server is going down.
func (o *sockets) keep(conn net.Conn) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	select {
	case <-o.done:
		return false
	default:
	}
	o.conns[conn] = struct{}{}
	return true
}

func (o *sockets) forget(conn net.Conn) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.conns, conn)
}

// run processes one query as soon as a slot is free. It returns false if the server is going down.
func (o *sockets) run(work func()) bool {
	select {
	case <-o.done:
		return false
	case o.slots <- struct{}{}:
	}
	o.running.Go(func() {
		defer func() { <-o.slots }()
		work()
	})
	return true
}

// wait returns false if the server goes down before d has passed.
func (o *sockets) wait(d time.Duration) bool {
	if d <= 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-o.done:
		return false
	case <-timer.C:
		return true
	}
}

func (s *Server) serveUDP(o *sockets) {
	buffer := make([]byte, maxDatagram)
	for {
		n, client, err := o.udp.ReadFromUDPAddrPort(buffer)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return
		}
		if err != nil {
			continue // an ICMP error for an earlier response
		}
		out := s.react(buffer[:n], "udp", client)
		if !o.run(func() { o.sendUDP(out, client) }) {
			return
		}
	}
}

// sendUDP ignores errors: the client gets no response, as with packet loss.
func (o *sockets) sendUDP(out reply, client netip.AddrPort) {
	if !o.wait(out.delay) {
		return
	}
	for _, m := range out.messages {
		if !m.elsewhere {
			_, _ = o.udp.WriteToUDPAddrPort(m.wire, client)
			continue
		}
		here := o.udp.LocalAddr().(*net.UDPAddr)
		other, err := net.ListenUDP("udp", &net.UDPAddr{IP: here.IP, Zone: here.Zone})
		if err != nil {
			continue
		}
		_, _ = other.WriteToUDPAddrPort(m.wire, client)
		other.Close()
	}
}

func (s *Server) serveTCP(o *sockets) {
	for {
		conn, err := o.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			if !o.wait(time.Millisecond) { // for example, out of descriptors
				return
			}
			continue
		}
		if !o.keep(conn) {
			abandon(conn)
			return
		}
		o.running.Go(func() {
			defer o.forget(conn)
			defer abandon(conn)
			s.serveConn(o, conn)
		})
	}
}

// serveConn answers the queries of one connection, each as soon as possible (RFC 7766 section
// 6.2.1.1: out of order).
func (s *Server) serveConn(o *sockets, conn net.Conn) {
	client := conn.RemoteAddr().(*net.TCPAddr).AddrPort()
	network := "tcp"
	if s.secure != nil {
		network = "tls"
	}
	var writing sync.Mutex
	for {
		var size [2]byte
		if _, err := io.ReadFull(conn, size[:]); err != nil {
			return
		}
		query := make([]byte, binary.BigEndian.Uint16(size[:]))
		if _, err := io.ReadFull(conn, query); err != nil {
			return
		}
		out := s.react(query, network, client)
		work := func() {
			if !o.wait(out.delay) {
				return
			}
			writing.Lock()
			defer writing.Unlock()
			sendTCP(conn, out)
		}
		if !o.run(work) {
			return
		}
	}
}

func sendTCP(conn net.Conn, out reply) {
	for _, m := range out.messages {
		frame := binary.BigEndian.AppendUint16(nil, uint16(len(m.wire)))
		frame = append(frame, m.wire...)
		if out.ending == resets {
			frame = frame[:len(frame)/2]
		}
		if _, err := conn.Write(frame); err != nil {
			return
		}
	}
	switch out.ending {
	case closes:
		conn.Close()
	case resets:
		reset(conn)
	}
}

// reset ends a connection with RST instead of FIN.
func reset(conn net.Conn) {
	if secured, ok := conn.(*tls.Conn); ok {
		conn = secured.NetConn()
	}
	if plain, ok := conn.(*net.TCPConn); ok {
		_ = plain.SetLinger(0) // fails only if it is closed
	}
	conn.Close()
}

// FindPort returns 127.0.0.1 with a port that was just free at every IPv4 address, for UDP and TCP,
// for a program that must be told where to listen. The port is below the ephemeral range
// (ip_local_port_range in ip(7)): until the program listens, the kernel gives it to no one else.
func FindPort() (netip.AddrPort, error) {
	var failed error
	for range pairAttempts {
		at := netip.AddrPortFrom(netip.IPv4Unspecified(), uint16(20_000+rand.N(12_000)))
		udp, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(at))
		if err != nil {
			failed = err
			continue
		}
		tcp, err := net.ListenTCP("tcp4", net.TCPAddrFromAddrPort(at))
		udp.Close()
		if err != nil {
			failed = err
			continue
		}
		tcp.Close()
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), at.Port()), nil
	}
	return netip.AddrPort{}, fmt.Errorf("finding a free port: %w", failed)
}

// FreePort is FindPort for a test, which fails on an error.
func FreePort(t testing.TB) netip.AddrPort {
	t.Helper()
	at, err := FindPort()
	if err != nil {
		t.Fatal(err)
	}
	return at
}
