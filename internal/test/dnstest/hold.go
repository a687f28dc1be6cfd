package dnstest

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"strconv"
	"syscall"
	"time"
)

// holding keeps the port of a server that is down bound but refusing. A free port could become the
// ephemeral port of another connection, and then stay in use for a minute (TIME-WAIT). Otherwise it
// could become the port of a client that queries this very port: on loopback, such a client
// connects to itself and is not refused.
type holding struct {
	udp *net.UDPConn
	tcp *os.File

	crowd []net.Conn // waiting to be accepted, which never happens
}

// hold takes as much of the port as it can; Up tries again for the rest.
func hold(addr netip.AddrPort, udp bool) *holding {
	h := new(holding)
	if udp {
		// Connected to itself, it receives only from itself, and the kernel refuses other packets.
		self := net.UDPAddrFromAddrPort(addr)
		h.udp, _ = net.DialUDP("udp", self, self)
	}
	h.tcp = holdTCP(addr)
	return h
}

// holdTCP binds without listening, which package net cannot do. It returns nil on failure.
func holdTCP(addr netip.AddrPort) *os.File {
	var family int
	var to syscall.Sockaddr
	if ip := addr.Addr(); ip.Is4() {
		family, to = syscall.AF_INET, &syscall.SockaddrInet4{Port: int(addr.Port()), Addr: ip.As4()}
	} else {
		family, to = syscall.AF_INET6, &syscall.SockaddrInet6{Port: int(addr.Port()), Addr: ip.As16(), ZoneId: zoneID(ip.Zone())}
	}
	fd, err := syscall.Socket(family, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	socket := os.NewFile(uintptr(fd), "held port")
	// As listeners do. Otherwise connections that were just closed would block it.
	err = syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1)
	if err == nil {
		err = syscall.Bind(fd, to)
	}
	if err != nil {
		socket.Close()
		return nil
	}
	return socket
}

// swallow makes the port neither accept nor refuse connections: its accept queue is full, and Linux
// drops further ones.
func (h *holding) swallow(addr netip.AddrPort) error {
	if err := syscall.Listen(int(h.tcp.Fd()), 0); err != nil {
		return os.NewSyscallError("listen", err)
	}
	const most = 16
	for range most {
		conn, err := net.DialTimeout("tcp", addr.String(), 100*time.Millisecond)
		if err != nil {
			return nil // the queue is full
		}
		h.crowd = append(h.crowd, conn)
	}
	return errors.New("the listen queue does not fill up")
}

// zoneID returns the index of an interface given by name or index, or 0.
func zoneID(zone string) uint32 {
	if found, err := net.InterfaceByName(zone); err == nil {
		return uint32(found.Index)
	}
	index, err := strconv.ParseUint(zone, 10, 32)
	if err != nil {
		return 0
	}
	return uint32(index)
}

// release frees the port. It may be called on nil, and repeatedly.
func (h *holding) release() {
	if h == nil {
		return
	}
	for _, conn := range h.crowd {
		conn.Close()
	}
	if h.udp != nil {
		h.udp.Close()
	}
	if h.tcp != nil {
		h.tcp.Close()
	}
}
