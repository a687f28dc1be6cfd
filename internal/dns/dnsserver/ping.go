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

// ping asks one of our own sockets, as a client would, whether it takes what comes in. It never waits.
//
// Its message is a header with an opcode that nobody has (RFC 6895 section 2.2), so that what answers queries need not look for it: a
// server that takes it for a client's answers NOTIMP, which shows as well that it lives.
type ping struct {
	to   Listener
	from netip.AddrPort
	fd   int
	wire []byte
	sent time.Time // zero: not yet

	state pingState
	err   error // why there is no answer
}

type pingState int

const (
	waiting  pingState = iota
	answered           // or it cannot be asked
	silent             // nobody is there
)

const opcodePing = 15

// newPing has a socket bound to the very address that it asks: one that this host does not have cannot be bound, and nothing leaves
// it. Nil: we are in no position to ask, as where no file descriptor is left.
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

// sockaddr is an address as the kernel takes it, whose zone is an interface's name.
func sockaddr(addr netip.AddrPort) (name unix.RawSockaddrInet6, size uint32) {
	if link, err := net.InterfaceByName(addr.Addr().Zone()); err == nil {
		addr = netip.AddrPortFrom(addr.Addr().WithZone(strconv.Itoa(link.Index)), addr.Port())
	}
	size = rawsock.SetAddr(&name, addr)
	return name, size
}

// send sends the ping: over TCP once, over UDP so often.
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

// hear looks for an answer: over TCP any octet or end of the connection, as where there are too many, shows that somebody accepts it.
func (p *ping) hear() {
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

// fail notes what came of a system call. An error that does not say that nobody is there says that we cannot ask, or that somebody has
// closed the connection.
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
