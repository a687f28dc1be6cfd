package forward

import (
	"crypto/rand"
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// maxIdle is how many sockets of one family a lane keeps for later questions.
const maxIdle = 128

// socket is what a question is sent from. Connecting it anew gives it another port of the kernel's choice, for a quarter of
// what another socket costs: the kernel lets go of a port that nobody has asked for by bind(2) when the socket is connected
// to AF_UNSPEC.
type socket struct {
	fd       int // -1: none
	slot     int // of the lane
	is4      bool
	isBound  bool // to a port that bind(2) was given: it stays
	isFaulty bool
}

// newLocked returns a question that nobody asks, with a socket if there is one.
func (n *lane) newLocked(is4, isBound bool) *asking {
	if idle := n.idle[family(is4)]; len(idle) > 0 && !isBound {
		a := idle[len(idle)-1]
		n.idle[family(is4)] = idle[:len(idle)-1]
		return a
	}
	a := &asking{socket: socket{fd: -1, is4: is4, isBound: isBound}}
	if last := len(n.free) - 1; last >= 0 {
		a.socket.slot = n.free[last]
		n.free = n.free[:last]
		n.slots[a.socket.slot] = a
	} else {
		a.socket.slot = len(n.slots)
		n.slots = append(n.slots, a)
	}
	return a
}

func family(is4 bool) int {
	if is4 {
		return 1
	}
	return 0
}

// send sends the question from a port of its own.
func (n *lane) send(a *asking, udp *UDP) (err error) {
	if a.socket.fd < 0 {
		err = n.open(a, udp)
	}
	if err == nil {
		err = connect(a.socket.fd, a.server.Addr)
	}
	if err == nil {
		err = sendOn(a.socket.fd, a.query)
	}
	if err != nil {
		a.socket.isFaulty = true
	}
	return err
}

func (n *lane) open(a *asking, udp *UDP) error {
	fd, err := openSocket(a.socket.is4)
	if err != nil {
		return err
	}
	if a.socket.isBound {
		err = bindDrawn(fd, a.server.Addr.Addr(), *udp)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	a.socket.fd = fd
	switch {
	case err != nil:
		return err
	case n.closed:
		return errClosed
	}
	return n.watchSocket(fd, a.socket.slot)
}

// drop is called by each who held the question. The last one keeps it and its socket for another one.
func (n *lane) drop(a *asking) {
	if a.holds.Add(-1) > 0 {
		return
	}
	isReusable := a.socket.fd >= 0 && !a.socket.isBound && !a.socket.isFaulty && disconnect(a.socket.fd) == nil && n.drain(a.socket.fd)
	clear(a.waiting)
	a.waiting, a.table, a.route, a.server, a.flight, a.isSpoilt, a.isUnread, a.isWaitedFor = a.waiting[:0], nil, nil, nil, nil, false, false, false
	n.mu.Lock()
	defer n.mu.Unlock()
	if idle := &n.idle[family(a.socket.is4)]; isReusable && !n.closed && len(*idle) < maxIdle {
		*idle = append(*idle, a)
		return
	}
	n.closeLocked(a)
}

// leave has the watcher drop the question: it may be about to look whether a response has come. It is woken for that: where
// no question can be sent nothing else wakes it, and each of them may have a socket.
func (n *lane) leave(a *asking) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.faulty = append(n.faulty, a)
	if n.isOver {
		n.dropFaultyLocked()
		return
	}
	n.wakeLocked()
}

// dropFaultyLocked drops what was left to the watcher, who looks at none of it.
func (n *lane) dropFaultyLocked() {
	for _, a := range n.faulty {
		if a.holds.Add(-1) == 0 {
			n.closeLocked(a)
		}
	}
	n.faulty = nil
}

func (n *lane) closeLocked(a *asking) {
	if a.socket.fd >= 0 {
		closeSocket(a.socket.fd)
		a.socket.fd = -1
	}
	n.slots[a.socket.slot] = nil
	n.free = append(n.free, a.socket.slot)
}

// drain throws away what has come since the response, so that nothing that was sent to one question's port is ever looked
// at as the response to another one. It reports whether nothing is left.
func (n *lane) drain(fd int) bool {
	var buffer [1]byte
	for range 64 { // more is a flood: the socket is not worth it
		if _, errno := receiveFrom(fd, buffer[:]); errno == unix.EAGAIN {
			return true
		}
	}
	return false
}

// ids are message IDs from the kernel's generator, drawn many at a time.
type ids struct {
	random [512]byte
	left   int // octets
}

func (d *ids) next() uint16 {
	if d.left == 0 {
		_, _ = rand.Read(d.random[:]) // never fails since Go 1.24: it ends the program instead
		d.left = len(d.random)
	}
	d.left -= 2
	return binary.BigEndian.Uint16(d.random[d.left:])
}
