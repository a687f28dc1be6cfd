package dnsserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// A port that is free for UDP may be taken for TCP; then another is tried.
const portTries = 10

var errUnspecified = errors.New("each address needs a socket of its own, to answer from")

// bindBoth returns the UDP and the TCP binding for an address: those of have
// that are bound, and new ones.
func (s *Server) bindBoth(want netip.AddrPort, have []*binding) []*binding {
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
		for i, proto := range []Proto{UDP, TCP} {
			if pair[i] == nil {
				pair[i] = s.bind(want, netip.AddrPortFrom(want.Addr(), port), proto)
				port = pair[i].actual.Port()
			}
		}
		again := want.Port() == 0 && !kept && try < portTries &&
			pair[0].err == nil && errors.Is(pair[1].err, unix.EADDRINUSE)
		if !again {
			return pair
		}
		_ = drainAll(context.Background(), pair) // nobody has asked there yet
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

// bind opens one socket and serves it.
func (s *Server) bind(want, addr netip.AddrPort, proto Proto) *binding {
	b := &binding{want: want, proto: proto, actual: addr}
	err := errUnspecified
	if !addr.Addr().IsUnspecified() {
		err = s.open(b)
	}
	b.err = reasonOf(err)
	return b
}

func (s *Server) open(b *binding) error {
	family := "6"
	if b.actual.Addr().Is4() {
		family = "4"
	}
	lc := net.ListenConfig{KeepAlive: -1} // connections are short: Config.Idle
	lc.SetMultipathTCP(false)             // Go's default; nothing to gain for one question
	if b.proto == TCP {
		l, err := lc.Listen(context.Background(), "tcp"+family, b.actual.String())
		if err != nil {
			return err
		}
		b.actual = netip.AddrPortFrom(b.actual.Addr(), l.Addr().(*net.TCPAddr).AddrPort().Port())
		b.socket = s.serveTCP(l, b.actual)
		return nil
	}
	lc.Control = controlUDP
	c, err := lc.ListenPacket(context.Background(), "udp"+family, b.actual.String())
	if err != nil {
		return err
	}
	conn := c.(*net.UDPConn)
	_ = conn.SetReadBuffer(receiveBuffer) // the kernel caps it at net.core.rmem_max
	b.actual = netip.AddrPortFrom(b.actual.Addr(), conn.LocalAddr().(*net.UDPAddr).AddrPort().Port())
	b.socket = s.serveUDP(conn, b.actual)
	return nil
}

// receiveBuffer holds a burst of some thousand queries while the receiving
// goroutine waits for a processor.
const receiveBuffer = 1 << 20

// controlUDP has the kernel ignore what ICMP says about the path's MTU, as
// unbound, BIND and Knot do: forged, it makes a nameserver send fragments, which
// can be replaced on the way ("Fragmentation considered poisonous", 2013).
func controlUDP(network, _ string, c syscall.RawConn) error {
	return c.Control(func(fd uintptr) {
		// No kernel that lacks the option sends worse than it always did.
		if network == "udp4" {
			_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_OMIT)
		} else {
			_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_OMIT)
		}
	})
}

// reasonOf leaves out of a net error what is said beside it, and says what is missing where that is known.
func reasonOf(err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		err = op.Err
	}
	if errors.Is(err, unix.EACCES) {
		return fmt.Errorf("%w (a port below 1024 takes root or CAP_NET_BIND_SERVICE)", err)
	}
	return err
}
