package dnsserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// portTries is the number of ports to try when Listen is given port 0. A port that is free for TCP
// may be in use for UDP. TCP is bound first: the kernel reports a UDP port as free if this user
// already shares it (SO_REUSEPORT, socket(7)), and would send queries for that port to our socket
// until the TCP bind failed.
const portTries = 10

var errUnspecified = errors.New("unspecified addresses (0.0.0.0, ::) are not supported; list each address")

// bindBoth returns the UDP and TCP bindings for an address. It reuses bindings from have that are
// bound and creates the others.
func (s *Server) bindBoth(want netip.AddrPort, have []*binding) []*binding {
	if s.termsOf(want) == Yielding {
		if b := bound(have, want, UDP); b != nil {
			return []*binding{b}
		}
		return nil
	}
	both := []*binding{bound(have, want, UDP), bound(have, want, TCP)}
	kept := slices.ContainsFunc(both, func(b *binding) bool { return b != nil })
	for try := 0; ; try++ {
		port := want.Port()
		pair := slices.Clone(both)
		for _, b := range pair {
			if b != nil {
				port = b.actual.Port()
			}
		}
		for i, proto := range slices.Backward([]Proto{UDP, TCP}) {
			if pair[i] == nil {
				pair[i] = s.bind(want, netip.AddrPortFrom(want.Addr(), port), proto)
				port = pair[i].actual.Port()
			}
		}
		again := want.Port() == 0 && !kept && try < portTries &&
			pair[1].err == nil && errors.Is(pair[0].err, unix.EADDRINUSE)
		if !again {
			return pair
		}
		s.dropAll(pair, nil)
		_ = drainAll(context.Background(), pair) // no client has sent a query there yet
	}
}

func bound(have []*binding, want netip.AddrPort, proto Proto) *binding {
	for _, b := range have {
		if b.want == want && b.proto == proto && b.socket != nil {
			return b
		}
	}
	return nil
}

// bind opens the socket for an address and serves it.
func (s *Server) bind(want, addr netip.AddrPort, proto Proto) *binding {
	b := &binding{want: want, proto: proto, actual: addr}
	err := errUnspecified
	if !addr.Addr().IsUnspecified() {
		err = s.open(b)
	}
	b.err = reasonOf(err)
	return b
}

// open serves sockets that are already bound, or binds new ones.
func (s *Server) open(b *binding) error {
	if b.proto == TCP {
		return s.openTCP(b)
	}
	return s.openUDP(b)
}

func (s *Server) openTCP(b *binding) error {
	exists, err := s.inherit(b, 0, func(file *os.File) error {
		adopted, err := net.FileListener(file)
		if err != nil {
			return err
		}
		return s.useTCP(b, adopted.(*net.TCPListener))
	})
	if exists {
		return err
	}
	lc := listenConfig()
	l, err := lc.Listen(context.Background(), "tcp"+family(b.actual), b.actual.String())
	if err != nil {
		return err
	}
	return s.useTCP(b, l.(*net.TCPListener))
}

// inherit passes the already bound socket with that index to use, and reports whether there is one.
// If it cannot be used, for lack of descriptors for example, it is discarded.
func (s *Server) inherit(b *binding, index int, use func(*os.File) error) (exists bool, err error) {
	file := s.cfg.Sockets.Take(b.proto, b.actual, index)
	if file == nil {
		return false, nil
	}
	defer file.Close()
	if err := use(file); err != nil {
		s.cfg.Log.Warn("cannot use an inherited socket", "address", b.actual, "proto", string(b.proto), "error", err)
		s.cfg.Sockets.Discard(b.proto, b.actual, index)
		return true, err
	}
	return true, nil
}

// openUDP serves all sockets that are already bound, because queries may wait in each. It adds new
// sockets if the kernel allows it, which it does only for the same user.
func (s *Server) openUDP(b *binding) error {
	var all udpSockets
	var free []int // indexes
	var err error
	for index := range MaxSockets {
		exists, failed := s.inherit(b, index, func(file *os.File) error {
			c, err := net.FilePacketConn(file)
			if err == nil {
				err = s.useUDP(b, &all, index, c.(*net.UDPConn))
			}
			return err
		})
		err = cmp.Or(failed, err)
		if !exists {
			free = append(free, index)
		}
	}
	lc := listenConfig()
	lc.Control = shared
	if s.termsOf(b.want) == Taking {
		lc.Control = reuseBeforeBind
	}
	if err == nil && b.want.Port() == 0 && len(all) == 0 {
		err = mustBeUnshared(b.actual)
	}
	for i := 0; err == nil && len(all) < s.socketsEach(b.want); i++ {
		var c net.PacketConn
		if c, err = lc.ListenPacket(context.Background(), "udp"+family(b.actual), b.actual.String()); err == nil {
			err = s.useUDP(b, &all, free[i], c.(*net.UDPConn))
		}
	}
	if len(all) == 0 {
		return err
	}
	_ = steer(all) // without steering, the kernel chooses by the client's address
	b.socket = all
	return nil
}

// mustBeUnshared returns an error if the UDP port already has a socket, even one that allows
// sharing. The process that left it may not receive from it any more, and queries that the kernel
// puts there would be lost.
func mustBeUnshared(addr netip.AddrPort) error {
	c, err := net.ListenUDP("udp"+family(addr), net.UDPAddrFromAddrPort(addr))
	if err != nil {
		return err
	}
	return c.Close()
}

// socketsEach returns the number of UDP sockets for an address. An address that is taken from
// another program gets one socket: with SO_REUSEPORT, Linux puts an IPv6 socket behind those that
// were there before.
func (s *Server) socketsEach(want netip.AddrPort) int {
	const few = 16 // addresses
	if s.addresses > few || s.termsOf(want) == Taking {
		return 1
	}
	return min(s.cfg.UDPSockets, MaxSockets)
}

func listenConfig() net.ListenConfig {
	lc := net.ListenConfig{KeepAlive: -1} // connections are short-lived; see Config.Idle
	lc.SetMultipathTCP(false)             // on by default in Go; useless for one question
	return lc
}

func family(a netip.AddrPort) string {
	if a.Addr().Is4() {
		return "4"
	}
	return "6"
}

// shared sets SO_REUSEPORT before a socket is bound, so that several sockets can share the address.
func shared(_, _ string, c syscall.RawConn) error {
	var failed error
	err := c.Control(func(fd uintptr) { failed = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1) })
	return errors.Join(err, failed)
}

func (s *Server) useTCP(b *binding, l *net.TCPListener) error {
	b.actual = netip.AddrPortFrom(b.actual.Addr(), l.Addr().(*net.TCPAddr).AddrPort().Port())
	raw, err := l.SyscallConn()
	if err == nil {
		err = s.keep(b, 0, raw)
	}
	if err != nil {
		l.Close()
		return err
	}
	socket, err := s.newTCPSocket(l, b.actual, min(s.socketsEach(b.want), mostLoops))
	if err != nil {
		s.cfg.Sockets.Discard(b.proto, b.actual, 0)
		return err
	}
	b.socket = socket
	return nil
}

// mostLoops is the maximum number of loops for the TCP connections of one address. One loop answers
// about 100,000 queries per second.
const mostLoops = 8

// useUDP starts serving one more socket.
func (s *Server) useUDP(b *binding, all *udpSockets, index int, c *net.UDPConn) error {
	b.actual = netip.AddrPortFrom(b.actual.Addr(), c.LocalAddr().(*net.UDPAddr).AddrPort().Port())
	_ = c.SetReadBuffer(receiveBuffer) // the kernel caps it at net.core.rmem_max
	_ = c.SetWriteBuffer(sendBuffer)   // likewise, at net.core.wmem_max
	file, err := newUDPFile(c)
	if err != nil {
		return err
	}
	err = controlUDP(file, b.actual.Addr())
	if err == nil {
		err = s.keep(b, index, file)
	}
	if err != nil {
		file.close()
		return err
	}
	u := s.newUDPSocket(file, b.actual)
	if err := s.join(u); err != nil {
		u.close()
		s.cfg.Sockets.Discard(b.proto, b.actual, index)
		return err
	}
	*all = append(*all, u)
	return nil
}

// controller is the part of syscall.RawConn that works without the netpoller.
type controller interface{ Control(func(fd uintptr)) error }

// keep passes a socket to Sockets.Keep. It is called before the first query is read, so that a
// crash before that point loses only queries in a brand-new socket.
func (s *Server) keep(b *binding, index int, raw controller) error {
	return raw.Control(func(fd uintptr) { s.cfg.Sockets.Keep(b.proto, b.actual, index, int(fd)) })
}

// receiveBuffer is the receive buffer size. The buffer holds queries that arrive while the process
// is being replaced or the receiving goroutine waits for a CPU. The kernel counts 768 bytes or
// more for a short query, and doubles the requested size.
const receiveBuffer = 4 << 20

// sendBuffer is the send buffer size. A response to an address of an attached network that no host
// has stays in the buffer for 3 s, while the kernel looks for the neighbor. With the kernel's
// default, 212992 bytes, 200 queries a second with such forged sources filled the buffer, and other
// clients got no answers.
const sendBuffer = 4 << 20

// controlUDP makes the kernel ignore ICMP messages about the path MTU, as unbound, BIND and Knot
// do. Forged messages make a nameserver send fragments, which can be replaced in transit
// ("Fragmentation considered poisonous", 2013).
func controlUDP(c controller, local netip.Addr) error {
	var failed error
	err := c.Control(func(fd uintptr) {
		failed = blockBriefly(int(fd))
		// Ignore errors: a kernel without the option behaves as it always did.
		if local.Is4() {
			_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_OMIT)
		} else {
			_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_OMIT)
		}
	})
	return errors.Join(err, failed)
}

// reasonOf strips the operation and address from a net error, and names the missing privilege if it
// is known.
func reasonOf(err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		err = op.Err
	}
	if errors.Is(err, unix.EACCES) {
		return fmt.Errorf("%w (ports below 1024 need root or CAP_NET_BIND_SERVICE)", err)
	}
	return err
}

func drainAll(ctx context.Context, bindings []*binding) error {
	errs := make([]error, len(bindings))
	var all sync.WaitGroup
	for i, b := range bindings {
		if b.socket != nil {
			all.Go(func() { errs[i] = b.socket.drain(ctx) })
		}
	}
	all.Wait()
	return cmp.Or(errs...) // all errors are the context's
}

// dropAll calls Sockets.Drop for bindings in gone that are not in next.
func (s *Server) dropAll(gone, next []*binding) {
	for _, b := range gone {
		if b.socket != nil && bound(next, b.want, b.proto) == nil {
			s.cfg.Sockets.Drop(b.proto, b.actual)
		}
	}
}

// processor is the offset at which a classic BPF program reads the current CPU number: SKF_AD_OFF +
// SKF_AD_CPU of linux/filter.h.
const processor = 0xfffff000 + 36

// steer makes the kernel choose among the sockets of one address by the CPU on which a query
// arrives, instead of by a hash of the client's address (SO_ATTACH_REUSEPORT_CBPF of socket(7),
// Linux 4.5). The receiver that last ran on that CPU finds the query in its cache and need not be
// woken on another CPU.
//
// The program belongs to all sockets that share the address, and survives a hand-over. It is
// replaced if their number changes. The numbering of the sockets does not matter, since each CPU
// has one. If the program selects a socket that does not exist, or the kernel rejects the program,
// the hash decides.
func steer(all udpSockets) (err error) {
	program := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: processor},
		{Code: unix.BPF_ALU | unix.BPF_MOD | unix.BPF_K, K: uint32(len(all))},
		{Code: unix.BPF_RET | unix.BPF_A},
	}
	filter := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	_ = all[0].file.Control(func(fd uintptr) { // fails on a closed socket only
		err = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_REUSEPORT_CBPF, &filter)
	})
	return err
}
