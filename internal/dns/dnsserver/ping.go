package dnsserver

import (
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"os"
	"strconv"
	"time"
	"unsafe"

	"github.com/miekg/dns"
	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/internal/sys/rawsock"
)

// ping checks whether one of our own sockets receives, by sending a query as a client would. It
// never blocks.
//
// The message is a header with an unassigned opcode (RFC 6895 section 2.2), so the code that
// answers queries need not look for pings. A server that does not recognize it as a ping answers
// NOTIMP, which also shows that it is alive.
type ping struct {
	to   Listener
	from netip.AddrPort
	fd   int
	wire []byte
	sent time.Time // zero if not sent yet

	state pingState
	err   error // reason why there is no answer
}

type pingState int

const (
	waiting  pingState = iota
	answered           // or it cannot be checked
	silent             // nothing listens there
)

const opcodePing = 15

// newPing binds its socket to the address that it checks. An address that this host does not have
// cannot be bound, so no packet leaves the host. It returns nil if no check is possible, for
// example without a free file descriptor.
func newPing(l Listener) *ping {
	kind := unix.SOCK_DGRAM
	if l.Proto == TCP {
		kind = unix.SOCK_STREAM
	}
	family := unix.AF_INET
	if !l.Addr.Addr().Is4() {
		family = unix.AF_INET6
	}
	fd, err := unix.Socket(family, kind|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	p := &ping{to: l, fd: fd, wire: newPingMessage(l.Proto), err: os.ErrDeadlineExceeded}
	if !p.bind() {
		p.close()
		return nil
	}
	return p
}

func newPingMessage(proto Proto) []byte {
	wire := make([]byte, prefixSize+headerSize)
	binary.BigEndian.PutUint16(wire, headerSize)
	binary.BigEndian.PutUint16(wire[prefixSize:], dns.Id())
	wire[prefixSize+2] = opcodePing << 3
	if proto == UDP {
		return wire[prefixSize:]
	}
	return wire
}

func isPing(wire []byte) bool { return wire[2]>>3 == opcodePing }

func (p *ping) bind() bool {
	name, size := sockaddr(netip.AddrPortFrom(p.to.Addr.Addr(), 0))
	if _, _, errno := unix.Syscall(unix.SYS_BIND, uintptr(p.fd), uintptr(unsafe.Pointer(&name)), uintptr(size)); errno != 0 {
		return false
	}
	size = uint32(unsafe.Sizeof(name))
	_, _, errno := unix.Syscall(unix.SYS_GETSOCKNAME, uintptr(p.fd), uintptr(unsafe.Pointer(&name)), uintptr(unsafe.Pointer(&size)))
	p.from = rawsock.AddrPort(&name)
	return errno == 0
}

// sockaddr converts an address to a kernel socket address. Its zone is an interface name.
func sockaddr(addr netip.AddrPort) (name unix.RawSockaddrInet6, size uint32) {
	if link, err := net.InterfaceByName(addr.Addr().Zone()); err == nil {
		addr = netip.AddrPortFrom(addr.Addr().WithZone(strconv.Itoa(link.Index)), addr.Port())
	}
	size = rawsock.SetAddr(&name, addr)
	return name, size
}

// send sends the ping: once over TCP, and at the given interval over UDP.
func (p *ping) send(now time.Time, every time.Duration) {
	switch {
	case p.sent.IsZero():
		name, size := sockaddr(p.to.Addr)
		_, _, errno := unix.Syscall(unix.SYS_CONNECT, uintptr(p.fd), uintptr(unsafe.Pointer(&name)), uintptr(size))
		if errno != 0 && errno != unix.EINPROGRESS && errno != unix.EALREADY && errno != unix.EISCONN {
			p.fail(errno)
			return
		}
	case p.to.Proto == TCP || now.Sub(p.sent) < every:
		return
	}
	if _, err := unix.SendmsgN(p.fd, p.wire, nil, nil, unix.MSG_NOSIGNAL); err == nil {
		p.sent = now
	} else {
		p.fail(err)
	}
}

// readAnswer checks for an answer. Over TCP, any data or the end of the connection, as when there
// are too many, shows that the socket accepts connections.
func (p *ping) readAnswer() {
	var in [headerSize + prefixSize]byte
	n, _, err := unix.Recvfrom(p.fd, in[:], 0)
	if err != nil {
		p.fail(err)
		return
	}
	if p.to.Proto == TCP || n >= headerSize && in[0] == p.wire[0] && in[1] == p.wire[1] {
		p.state = answered
	}
}

// fail handles the error of a system call. Only ECONNREFUSED means that nothing listens. Other
// errors mean that the check is impossible or that the connection was closed.
func (p *ping) fail(err error) {
	switch {
	case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EINTR):
	case errors.Is(err, unix.ECONNREFUSED):
		p.state, p.err = silent, err
	default:
		p.state = answered
	}
}

func (p *ping) close() { unix.Close(p.fd) }
