package dnsserver

import (
	"fmt"
	"net"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
)

// MaxSockets is the maximum number of sockets for one address and transport.
const MaxSockets = 64

// Sockets holds sockets that outlive the server: the service manager holds them too and passes them
// to the next process. The server calls its methods from one goroutine at a time.
type Sockets interface {
	// Take returns the socket with that index that is already bound to the address, or nil if there
	// is none. The server closes it. The indexes of an address are below MaxSockets.
	Take(proto Proto, at netip.AddrPort, index int) *os.File
	// Keep is called for each socket that is served. fd is valid until Keep returns.
	Keep(proto Proto, at netip.AddrPort, index, fd int)
	// Drop is called when the server no longer serves an address.
	Drop(Proto, netip.AddrPort)
}

// Identify returns the transport and local address of a socket. It asks the kernel, because a
// file's name can be anything.
func Identify(file *os.File) (Proto, netip.AddrPort, error) {
	c, err := file.SyscallConn()
	if err != nil {
		return "", netip.AddrPort{}, fmt.Errorf("inspecting a socket: %w", err)
	}
	var kind, listens int
	var at unix.Sockaddr
	var failed error
	err = c.Control(func(fd uintptr) {
		if kind, failed = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_TYPE); failed != nil {
			return
		}
		if listens, failed = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_ACCEPTCONN); failed != nil {
			return
		}
		at, failed = unix.Getsockname(int(fd))
	})
	if err == nil {
		err = failed
	}
	if err != nil {
		return "", netip.AddrPort{}, fmt.Errorf("inspecting a socket: %w", err)
	}
	addr, ok := addrPortOf(at)
	switch {
	case ok && kind == unix.SOCK_DGRAM:
		return UDP, addr, nil
	case ok && kind == unix.SOCK_STREAM && listens == 1:
		return TCP, addr, nil
	}
	return "", netip.AddrPort{}, fmt.Errorf("%s is neither a UDP socket nor a listening TCP socket", file.Name())
}

func addrPortOf(at unix.Sockaddr) (netip.AddrPort, bool) {
	switch at := at.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(at.Addr), uint16(at.Port)), true
	case *unix.SockaddrInet6:
		addr := netip.AddrFrom16(at.Addr)
		if link, err := net.InterfaceByIndex(int(at.ZoneId)); at.ZoneId != 0 && err == nil {
			addr = addr.WithZone(link.Name)
		}
		return netip.AddrPortFrom(addr.Unmap(), uint16(at.Port)), true
	}
	return netip.AddrPort{}, false
}

// noSockets implements Sockets for a server without inherited sockets.
type noSockets struct{}

func (noSockets) Take(Proto, netip.AddrPort, int) *os.File { return nil }
func (noSockets) Keep(Proto, netip.AddrPort, int, int)     {}
func (noSockets) Drop(Proto, netip.AddrPort)               {}
