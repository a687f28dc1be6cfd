package forward

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/internal/dns/exchange"
	"github.com/node-dns/node-dns/internal/sys/rawsock"
)

// A socket is a UDP socket for one query at a time. It is connected, so that the kernel drops
// packets from other sources (CVE-2020-25684, DNSpooq). Without that, a miss would cost a tenth
// less, but a port scanner could find the open ports and would only have to guess the ID (SAD DNS,
// CVE-2020-25705; unbound's udp-connect). Its port is random within net.ipv4.ip_local_port_range,
// which adds 14 bits to the ID (RFC 5452 section 9.2). CoreDNS keeps its sockets and used 8 ports
// for 4000 queries.
//
// Reconnecting a socket gives it another random port, at a quarter of the cost of a new socket.
// When a socket is connected to AF_UNSPEC, the kernel releases its port, unless bind(2) chose it.
type socket struct {
	fd       int // -1 if not open
	slot     int // index in the lane; -1 if none
	is4      bool
	isBound  bool // to a port, source or interface; such a socket is not reused
	isFaulty bool
}

// receiveSize fits any datagram that crosses Ethernet unfragmented. A larger one exceeds the
// requested size; the question is sent again over TCP.
const receiveSize = 2048

// maxIdle is the maximum number of idle sockets per family that a lane keeps.
const maxIdle = 1024

// newSocketLocked returns an unused try, with an idle socket if possible.
func (n *lane) newSocketLocked(is4, isBound bool) *try {
	if idle := &n.idle[family(is4)]; len(*idle) > 0 && !isBound {
		last := len(*idle) - 1
		t := (*idle)[last]
		(*idle)[last] = nil
		*idle = (*idle)[:last]
		return t
	}
	t := &try{socket: socket{fd: -1, is4: is4, isBound: isBound}}
	if last := len(n.free) - 1; last >= 0 {
		t.socket.slot = n.free[last]
		n.free = n.free[:last]
		n.slots[t.socket.slot] = t
	} else {
		t.socket.slot = len(n.slots)
		n.slots = append(n.slots, t)
	}
	return t
}

func family(is4 bool) int {
	if is4 {
		return 1
	}
	return 0
}

// sendUDP sends the query from a new port.
func (n *lane) sendUDP(t *try) error {
	addr, err := withIndex(t.to.Addr.Addr())
	if err != nil {
		return err
	}
	to := netip.AddrPortFrom(addr, t.to.Addr.Port())
	if t.socket.fd < 0 {
		err = n.open(t, to)
	} else {
		err = rawsock.Connect(t.socket.fd, to)
	}
	if err != nil {
		return err
	}
	return rawsock.Send(t.socket.fd, t.query)
}

// withIndex replaces the zone of an address, an interface name, with the interface index.
func withIndex(addr netip.Addr) (netip.Addr, error) {
	if addr.Zone() == "" {
		return addr, nil
	}
	device, err := net.InterfaceByName(addr.Zone())
	if err != nil {
		return addr, fmt.Errorf("link of %s: %w", addr, err)
	}
	return addr.WithZone(strconv.Itoa(device.Index)), nil
}

// open creates a connected socket and adds it to epoll. It discards packets that arrived before
// connect, which may come from any source.
func (n *lane) open(t *try, to netip.AddrPort) error {
	fd, err := rawsock.OpenUDP(t.socket.is4)
	if err != nil {
		return err
	}
	n.mu.Lock()
	t.socket.fd = fd
	n.mu.Unlock()
	if t.socket.isBound {
		err = bind(fd, t.to, *n.f.udp.Load())
	}
	if err == nil {
		err = rawsock.Connect(fd, to)
	}
	if err == nil && t.socket.isBound {
		n.drain(fd)
	}
	if err == nil {
		err = n.watchSocket(fd, t.socket.slot)
	}
	return err
}

// bind binds a socket to the interface and source address of a server, and to one of udp's ports.
func bind(fd int, s *server, udp exchange.UDP) error {
	if s.Interface != "" {
		if err := unix.BindToDevice(fd, s.Interface); err != nil {
			return fmt.Errorf("binding to %s: %w", s.Interface, err)
		}
	}
	from := s.Source
	switch {
	case from.IsValid() || udp.HasPorts():
	default:
		return nil
	}
	if !from.IsValid() {
		from = netip.IPv6Unspecified()
		if s.Addr.Addr().Is4() {
			from = netip.IPv4Unspecified()
		}
	}
	from, err := withIndex(from)
	if err != nil {
		return err
	}
	return bindDrawn(fd, from, udp)
}

// bindDrawn binds to an address and a random port: one of udp's ports if it has any.
func bindDrawn(fd int, from netip.Addr, udp exchange.UDP) error {
	if !udp.HasPorts() {
		return rawsock.CallError("bind", rawsock.Bind(fd, netip.AddrPortFrom(from, 0)))
	}
	for range exchange.MaxDraws {
		errno := rawsock.Bind(fd, netip.AddrPortFrom(from, udp.Draw()))
		if !exchange.IsTaken(errno) {
			return rawsock.CallError("bind", errno)
		}
	}
	return fmt.Errorf("%w: %w", exchange.ErrNoPort, syscall.EADDRNOTAVAIL)
}

// drop releases one hold. The last one keeps the socket for another query or closes it.
func (n *lane) drop(t *try) {
	if t.holds.Add(-1) > 0 {
		return
	}
	if t.socket.slot < 0 {
		n.releaseFlight(t.fl)
		return
	}
	isReusable := t.socket.fd >= 0 && !t.socket.isBound && !t.socket.isFaulty && rawsock.Disconnect(t.socket.fd) == nil && n.drain(t.socket.fd)
	n.mu.Lock()
	if fl := t.fl; fl.refs.Add(-1) == 0 {
		n.spareLocked(fl)
	}
	query, s := t.query[:0], t.socket
	if idle := &n.idle[family(s.is4)]; isReusable && !n.closed && len(*idle) < min(maxIdle, int(n.f.flights.max.Load())) {
		*t = try{query: query, socket: s}
		*idle = append(*idle, t)
		n.mu.Unlock()
		return
	}
	n.slots[s.slot] = nil
	n.free = append(n.free, s.slot)
	t.fl = nil
	n.mu.Unlock()
	if s.fd >= 0 {
		rawsock.Close(s.fd)
	}
}

// drain discards datagrams that arrived after the response, so that they are never mistaken for the
// response to another question. It reports whether the socket is empty.
func (n *lane) drain(fd int) bool {
	var buffer [1]byte
	for range 64 { // more is a flood; then the caller closes the socket
		if _, errno := rawsock.Receive(fd, buffer[:]); errno == unix.EAGAIN {
			return true
		}
	}
	return false
}

// watchSocket adds a socket to epoll, edge-triggered.
func (n *lane) watchSocket(fd, slot int) error {
	event := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET, Fd: int32(slot)} // Fd holds any value of ours
	_, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_CTL, uintptr(n.poll.epoll), unix.EPOLL_CTL_ADD, uintptr(fd), uintptr(unsafe.Pointer(&event)), 0, 0)
	return rawsock.CallError("epoll_ctl", errno)
}
