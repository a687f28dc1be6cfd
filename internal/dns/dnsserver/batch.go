package dnsserver

import (
	"net/netip"
	"slices"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/internal/sys/rawsock"
)

const (
	// batchSize is the maximum number of datagrams that one system call receives or sends.
	batchSize = 32
	// shortQuery is the space for a query in a batch and in a PendingQuery, in bytes. A name and
	// an OPT record with a cookie take 300.
	shortQuery = 512
	// restSize is the space for the part of a datagram beyond shortQuery.
	restSize = 1<<16 - shortQuery
)

// mmsghdr is struct mmsghdr of recvmmsg(2) and sendmmsg(2).
type mmsghdr struct {
	unix.Msghdr
	length uint32
	_      uint32
}

// batch holds the queries that one system call received from a socket. It belongs to one goroutine.
// Its contents are valid until the next receive.
type batch struct {
	messages [batchSize]mmsghdr
	iovs     [batchSize][2]unix.Iovec
	clients  [batchSize]unix.RawSockaddrInet6 // large enough for IPv4 too
	queries  [batchSize][shortQuery]byte
	// rest has restSize bytes for each message. It is outside Go's heap, which would count 2 MB
	// for each socket: the kernel allocates a page only when a long query arrives. It is nil if the
	// machine has no memory for it; long queries are then truncated.
	rest []byte

	start    time.Time // creation; reading only the monotonic clock is cheaper than time.Now
	arrived  time.Time // time of the last receive
	received int       // number of messages
}

// init points the messages to the memory of the batch. The batch must not be moved afterwards.
func (b *batch) init() {
	b.start = time.Now()
	b.arrived = b.start
	b.rest, _ = unix.Mmap(-1, 0, batchSize*restSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	for i := range b.messages {
		m, iovs := &b.messages[i], &b.iovs[i]
		iovs[0].Base = &b.queries[i][0]
		iovs[0].SetLen(shortQuery)
		m.Iov = &iovs[0]
		m.SetIovlen(1)
		if b.rest != nil {
			iovs[1].Base = &b.rest[i*restSize]
			iovs[1].SetLen(restSize)
			m.SetIovlen(2)
		}
		m.Name, m.Namelen = (*byte)(unsafe.Pointer(&b.clients[i])), uint32(unsafe.Sizeof(b.clients[i]))
	}
}

// release frees the memory outside Go's heap. receive must not be called afterwards.
func (b *batch) release() {
	if b.rest == nil {
		return
	}
	rest := b.rest
	b.rest = nil
	for i := range b.messages {
		b.iovs[i][1] = unix.Iovec{}
		b.messages[i].SetIovlen(1)
	}
	_ = unix.Munmap(rest)
}

// receive receives what waits in the socket and returns the number of messages: 1 to batchSize, or
// 0 with an error, which is EAGAIN if nothing waits. If wait is set and the socket is blocking,
// receive waits for up to SO_RCVTIMEO. Go's scheduler does not know of that wait; see receiver.
// r is the room of the socket.
func (b *batch) receive(fd uintptr, wait bool, r *room) (int, error) {
	for i := range b.received {
		// The kernel has set it to the size of the address.
		b.messages[i].Namelen = uint32(unsafe.Sizeof(b.clients[i]))
	}
	b.received = 0
	flags := uintptr(unix.MSG_DONTWAIT)
	if wait {
		flags = unix.MSG_WAITFORONE
	}
	n, _, errno := unix.RawSyscall6(unix.SYS_RECVMMSG, fd, uintptr(unsafe.Pointer(&b.messages)), uintptr(r.n), flags, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	b.arrived = b.start.Add(time.Since(b.start))
	b.received = int(n)
	r.after(b.received)
	return b.received, nil
}

// room is the number of messages to request from a socket next. If messages arrive one by one, it
// is one: the kernel prepares each further message before it finds that none is waiting.
type room struct {
	n      int
	single int // number of consecutive receives of one message
}

// probe is the number of consecutive single-message receives after which the next receive requests
// more.
const probe = 8

// after adapts the room after a receive.
func (r *room) after(received int) {
	switch {
	case r.n == 1:
		if r.single++; r.single == probe {
			r.n, r.single = 4, 0
		}
	case received == 1:
		r.n = 1
	case received == r.n:
		r.n = min(4*r.n, batchSize)
	}
}

// query returns message i and its sender. The caller must not change it.
func (b *batch) query(i int) (wire []byte, client netip.AddrPort) {
	n := int(b.messages[i].length)
	wire = b.queries[i][:min(n, shortQuery)]
	if n > shortQuery {
		wire = slices.Concat(wire, b.rest[i*restSize:][:n-shortQuery])
	}
	return wire, rawsock.AddrPort(&b.clients[i])
}

// client returns the sender of message i as a kernel socket address.
func (b *batch) client(i int) (name *unix.RawSockaddrInet6, size uint32) {
	return &b.clients[i], b.messages[i].Namelen
}
