package forward

import (
	"errors"
	"net/netip"
	"slices"
	"time"
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
//
// While a lane is busy, a port serves up to portUses queries to one server within portLife, one at
// a time. Each query draws its socket among minPool idle ones of all lanes, or more. So an attacker
// who knows all their ports guesses the next one with 8 bits; any other attacker needs 14 as
// before.
type socket struct {
	fd        int // -1 if not open
	slot      int // index in the lane; -1 if none
	is4       bool
	isBound   bool // to a port, source or interface; such a socket is not reused
	isFaulty  bool
	mayRepeat bool           // its port may be kept: the lane is busy, and the socket is new or from a full pool
	to        netip.AddrPort // server of its port; invalid without a port
	since     time.Time      // when it got its port
	uses      int            // queries from its port
}

const (
	portUses = 8
	portLife = 250 * time.Millisecond
	minPool  = 256
)

// canRepeat reports whether a query may use the socket's port again.
func (s *socket) canRepeat(to netip.AddrPort, now time.Time) bool {
	return s.mayRepeat && s.to == to && s.uses < portUses && now.Sub(s.since) < portLife
}

// keepsPort reports whether the port of an ended try may be used again. After an invalid response,
// an attacker may know the port. Without an answer, a late one may still arrive.
func (t *try) keepsPort() bool {
	return t.socket.mayRepeat && t.socket.uses < portUses && t.isAnswered && t.strays == 0
}

// receiveSize fits any datagram that crosses Ethernet unfragmented. A larger one exceeds the
// requested size; the question is sent again over TCP.
const receiveSize = 2048

// maxIdle returns the maximum number of idle sockets per family that a lane keeps.
func (n *lane) maxIdle() int { return int(min(1024, n.f.flights.max.Load())) }

// newSocketLocked returns an unused try, with an idle socket drawn at random. A busy lane opens
// sockets until it has enough to draw from.
func (n *lane) newSocketLocked(is4, isBound bool) *try {
	idle := &n.idle[family(is4)]
	isFull := len(*idle) >= n.poolSize()
	isGrowing := n.isInside && !isFull && len(n.slots)-len(n.free) < n.maxIdle()
	if last := len(*idle) - 1; last >= 0 && !isBound && !isGrowing {
		drawn := int(n.ids.Next()) * len(*idle) >> 16
		t := (*idle)[drawn]
		(*idle)[drawn], (*idle)[last] = (*idle)[last], nil
		*idle = (*idle)[:last]
		t.socket.mayRepeat = n.isInside && isFull
		return t
	}
	t := &try{socket: socket{fd: -1, is4: is4, isBound: isBound, mayRepeat: n.isInside && !isBound}}
	if len(n.free) == 0 {
		n.free, n.slots = append(n.free, len(n.slots)), append(n.slots, nil)
	}
	last := len(n.free) - 1
	t.socket.slot, n.free = n.free[last], n.free[:last]
	n.slots[t.socket.slot] = t
	return t
}

// poolSize returns this lane's share of minPool, but at least a quarter of it: an attacker who
// knows the lane of a client guesses among this lane's sockets.
func (n *lane) poolSize() int { return max(minPool/n.f.most, minPool/4) }

func family(is4 bool) int {
	if is4 {
		return 1
	}
	return 0
}

// sendUDP sends the query, from a new port or one that may be used again.
func (n *lane) sendUDP(t *try) error {
	addr, err := rawsock.WithIndex(t.to.Addr.Addr())
	if err != nil {
		return err
	}
	to := netip.AddrPortFrom(addr, t.to.Addr.Port())
	switch {
	case t.socket.fd < 0:
		err = n.open(t, to)
	case !t.socket.canRepeat(to, t.begun) || !n.drain(t.socket.fd, 1): // its buffer must be empty
		err = n.connect(t, to)
	}
	if err != nil {
		return err
	}
	t.socket.uses++
	return rawsock.Send(t.socket.fd, t.query)
}

// connect gives the socket of a try a new port.
func (n *lane) connect(t *try, to netip.AddrPort) error {
	if err := n.releasePort(&t.socket); err != nil {
		return err
	}
	t.socket.to, t.socket.since, t.socket.uses = to, t.begun, 0
	return rawsock.Connect(t.socket.fd, to)
}

// releasePort disconnects the socket, which gives up its port, and empties it. After an error the
// socket must be closed.
func (n *lane) releasePort(s *socket) error {
	if !s.to.IsValid() {
		return nil
	}
	s.to = netip.AddrPort{}
	if err := rawsock.Disconnect(s.fd); err != nil {
		return err
	}
	if !n.drain(s.fd, flood) {
		return errFlooded
	}
	return nil
}

var errFlooded = errors.New("a socket receives faster than it is emptied")

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
		err = exchange.Bind(fd, t.to.Server, *n.f.udp.Load())
	}
	if err == nil {
		err = n.connect(t, to)
	}
	if err == nil && t.socket.isBound {
		n.drain(fd, flood)
	}
	if err == nil {
		err = n.watchSocket(fd, t.socket.slot)
	}
	return err
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
	isReusable := t.socket.fd >= 0 && !t.socket.isBound && !t.socket.isFaulty && (t.keepsPort() || n.releasePort(&t.socket) == nil)
	n.mu.Lock()
	if fl := t.fl; fl.refs.Add(-1) == 0 {
		n.spareLocked(fl)
	}
	query, s := t.query[:0], t.socket
	if idle := &n.idle[family(s.is4)]; isReusable && !n.closed && len(*idle) < n.maxIdle() {
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

const (
	// flood is more datagrams than a socket holds by default (net.core.rmem_default).
	flood = 1024
	// someDatagrams are discarded while other queries wait for the lane. The rest is discarded
	// before the socket's next query.
	someDatagrams = 64
)

// drain discards datagrams that arrived after the response, so that they are never mistaken for the
// response to another question. It reports whether there were fewer than most.
func (n *lane) drain(fd, most int) bool {
	var buffer [1]byte
	for range most {
		if _, errno := rawsock.Receive(fd, buffer[:]); errno == unix.EAGAIN {
			return true
		}
	}
	return false
}

// closeIdle closes the idle sockets.
func (n *lane) closeIdle() {
	n.mu.Lock()
	all := slices.Concat(n.idle[0], n.idle[1])
	n.idle = [2][]*try{}
	for _, t := range all {
		n.slots[t.socket.slot] = nil
		n.free = append(n.free, t.socket.slot)
	}
	n.mu.Unlock()
	for _, t := range all {
		rawsock.Close(t.socket.fd)
	}
}

// watchSocket adds a socket to epoll, edge-triggered.
func (n *lane) watchSocket(fd, slot int) error {
	event := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET, Fd: int32(slot)} // Fd holds any value of ours
	_, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_CTL, uintptr(n.poll.epoll), unix.EPOLL_CTL_ADD, uintptr(fd), uintptr(unsafe.Pointer(&event)), 0, 0)
	return rawsock.CallError("epoll_ctl", errno)
}
