package dnsserver

import (
	"net/netip"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/internal/sys/rawsock"
)

// outbox gathers the responses to one batch of queries, which leave in one system call. It belongs to one goroutine.
type outbox struct {
	n        int
	messages [batchSize]mmsghdr
	iovs     [batchSize]unix.Iovec
	names    [batchSize]unix.RawSockaddrInet6
	buffers  [batchSize][]byte
	samples  [batchSize]sample
}

// buffer is where the next response may be written.
func (o *outbox) buffer() []byte {
	if o.buffers[o.n] == nil {
		o.buffers[o.n] = make([]byte, bufferSize)
	}
	return o.buffers[o.n]
}

// add puts the response to a query in, which must not be nil, and must stay as it is until flush.
func (o *outbox) add(response []byte, client netip.AddrPort, query sample) {
	o.put(response, rawsock.SetAddr(&o.names[o.n], client), query)
}

// addTo is add where the kernel has named the client.
func (o *outbox) addTo(response []byte, client *unix.RawSockaddrInet6, size uint32, query sample) {
	o.names[o.n] = *client
	o.put(response, size, query)
}

// put puts a response to the name that is next in, which has that size.
func (o *outbox) put(response []byte, size uint32, query sample) {
	o.samples[o.n] = query.with(response)
	m := &o.messages[o.n]
	o.iovs[o.n].Base = unsafe.SliceData(response)
	o.iovs[o.n].SetLen(len(response))
	m.Name, m.Namelen = (*byte)(unsafe.Pointer(&o.names[o.n])), size
	m.Iov = &o.iovs[o.n]
	m.SetIovlen(1)
	o.n++
}

// flush sends what is in it, and returns how many could not be sent.
func (o *outbox) flush(fd uintptr) (failed int) {
	failed = o.send(fd, 0, o.n)
	o.empty()
	return failed
}

// empty is to be called when all have been sent.
func (o *outbox) empty() {
	clear(o.iovs[:o.n]) // a response that was too large for its buffer is not kept
	o.n = 0
}

// send sends some of what is in it, and returns how many could not be sent.
func (o *outbox) send(fd uintptr, from, to int) (failed int) {
	patient := true
	for sent := from; sent < to; {
		n, errno := o.trySend(fd, sent, to)
		switch {
		case errno == 0:
			sent += int(n)
		case errno == unix.EINTR:
		case errno == unix.EAGAIN && patient:
			patient = waitWritable(fd)
		default: // of the first one: the others may have another way to go
			sent++
			failed++
		}
	}
	return failed
}

// trySend has the kernel send some of what is in it, and returns how many it took. One costs less as a datagram of its own.
func (o *outbox) trySend(fd uintptr, from, to int) (n uintptr, errno unix.Errno) {
	m := &o.messages[from]
	if to-from == 1 {
		_, _, errno = unix.RawSyscall6(unix.SYS_SENDTO, fd, uintptr(unsafe.Pointer(m.Iov.Base)), uintptr(m.Iov.Len), unix.MSG_DONTWAIT,
			uintptr(unsafe.Pointer(m.Name)), uintptr(m.Namelen))
		return 1, errno
	}
	n, _, errno = unix.RawSyscall6(unix.SYS_SENDMMSG, fd, uintptr(unsafe.Pointer(m)), uintptr(to-from), unix.MSG_DONTWAIT, 0, 0)
	return n, errno
}
