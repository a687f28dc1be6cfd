package dnsserver

import (
	"net/netip"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/internal/sys/rawsock"
)

// outbox collects the responses to one batch of queries and sends them in one system call. It
// belongs to one goroutine.
type outbox struct {
	n        int
	messages [batchSize]mmsghdr
	iovs     [batchSize]unix.Iovec
	names    [batchSize]unix.RawSockaddrInet6
	buffers  [batchSize][]byte
	samples  [batchSize]sample
}

// buffer returns the buffer for the next response.
func (o *outbox) buffer() []byte {
	if o.buffers[o.n] == nil {
		o.buffers[o.n] = make([]byte, bufferSize)
	}
	return o.buffers[o.n]
}

// add adds the response to a query. response must not be nil, and must not change until flush.
func (o *outbox) add(response []byte, client netip.AddrPort, query sample) {
	o.put(response, rawsock.SetAddr(&o.names[o.n], client), query)
}

// addTo is like add but takes the client as a kernel socket address.
func (o *outbox) addTo(response []byte, client *unix.RawSockaddrInet6, size uint32, query sample) {
	o.names[o.n] = *client
	o.put(response, size, query)
}

// put adds a response whose destination, of that size, is already in names.
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

// flush sends all responses and returns the number that failed.
func (o *outbox) flush(fd uintptr) (failed int) {
	failed = o.send(fd, 0, o.n)
	o.empty()
	return failed
}

// empty resets the outbox after all responses were sent.
func (o *outbox) empty() {
	clear(o.iovs[:o.n]) // do not keep responses that were too large for their buffer
	o.n = 0
}

// send sends the responses from index from up to to, and returns the number that failed.
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
		default: // skip only the first one; the others may take another route
			sent++
			failed++
		}
	}
	return failed
}

// trySend passes some responses to the kernel and returns how many it accepted. A single response
// is cheaper with sendto.
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
