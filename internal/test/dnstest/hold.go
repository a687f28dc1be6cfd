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

// holding keeps a port for a server that is down, refused to clients all the while. Let go, the port may become the
// ephemeral one of somebody else's connection, and then stays taken for a minute (TIME-WAIT); or of a client that asks
// this very port, which on loopback connects to itself and is not refused.
type holding struct {
	udp *net.UDPConn
	tcp *os.File

	crowd []net.Conn // that wait to be accepted, which they never are
}

// hold takes the port as far as it can be had; Up tries again for what cannot.
func hold(addr netip.AddrPort, udp bool) *holding {
	h := new(holding)
	if udp {
		// Connected to itself it receives from nobody else, and the kernel refuses what others send.
		self := net.UDPAddrFromAddrPort(addr)
		h.udp, _ = net.DialUDP("udp", self, self)
	}
	h.tcp = holdTCP(addr)
	return h
}

// holdTCP binds and does not listen, which package net cannot do. Nil when that failed.
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
	// As listeners do, or connections that were closed a moment ago would be in the way.
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

// swallow makes the port one whose connections are neither accepted nor refused: as many wait already as may, and Linux drops what
// comes then.
func (h *holding) swallow(addr netip.AddrPort) error {
	if err := syscall.Listen(int(h.tcp.Fd()), 0); err != nil {
		return os.NewSyscallError("listen", err)
	}
	const most = 16
	for range most {
		conn, err := net.DialTimeout("tcp", addr.String(), 100*time.Millisecond)
		if err != nil {
			return nil // it is full
		}
		h.crowd = append(h.crowd, conn)
	}
	return errors.New("connections are taken without end")
}

// zoneID is the index of an interface that is given by name or by index; 0 is none.
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

// release lets the port go; nil and a second time are nothing.
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
