package inflight

import (
	"net/netip"
	"os"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Receiver reads the queries of one socket. It belongs to one goroutine.
type Receiver struct {
	log     *Log
	socket  syscall.RawConn
	local   endpoint
	clock   clock
	current *place
	private *place // used while the Log has no free one; nothing of it outlives the process
	rest    []byte // of a query that is longer than a place

	read  func(fd uintptr) bool // receive, made once: RawConn.Read would have it allocated each time
	errno unix.Errno
}

// Receive returns a Receiver for a socket that is bound to local. Release it when nothing is read any more.
func (l *Log) Receive(socket syscall.RawConn, local netip.AddrPort) *Receiver {
	r := &Receiver{
		log: l, socket: socket, local: newEndpoint(local), clock: newClock(),
		private: new(place), rest: make([]byte, 1<<16),
	}
	r.read = r.receive
	r.current = r.private
	return r
}

// Next waits for the next query. Wire holds until Done, Hold or the next call, and Done may be called when it needs no
// answer any more. The error is that of the socket: os.ErrDeadlineExceeded and net.ErrClosed end it, what else there is
// passes (ENOBUFS, ENOMEM, ENETDOWN).
func (r *Receiver) Next() (wire []byte, client netip.AddrPort, err error) {
	if r.current == r.private {
		if p := r.log.take(); p != nil {
			r.current = p
		}
	}
	r.current.prepare(r.rest)
	r.current.local = r.local
	if err := r.socket.Read(r.read); err != nil {
		return nil, netip.AddrPort{}, err
	}
	if r.errno != 0 {
		return nil, netip.AddrPort{}, os.NewSyscallError("recvmmsg", r.errno)
	}
	client = r.current.from()
	if n := r.current.message.length; n > maxQuery {
		wire = append(append(make([]byte, 0, n), r.current.wire()...), r.rest[:n-maxQuery]...)
		r.Done() // what is not whole cannot be asked again
		return wire, client, nil
	}
	return r.current.wire(), client, nil
}

// receive is called when there is something to read, and before that.
func (r *Receiver) receive(fd uintptr) bool {
	r.current.arrived = r.clock.now()
	_, _, r.errno = unix.Syscall6(unix.SYS_RECVMMSG, fd, uintptr(unsafe.Pointer(&r.current.message)), 1, unix.MSG_DONTWAIT, 0, 0)
	return r.errno != unix.EAGAIN && r.errno != unix.EINTR
}

// Done says that the query that Next returned last needs no answer any more.
func (r *Receiver) Done() { r.current.clear() }

// Hold keeps the query that Next returned last while others are received. Nil when it is not kept.
func (r *Receiver) Hold() *Held {
	if r.current == r.private || !r.current.isTaken() {
		return nil
	}
	h := &Held{log: r.log, place: r.current}
	r.current = r.private
	return h
}

// Release gives up the place that is waiting for a query.
func (r *Receiver) Release() {
	if r.current != r.private {
		r.log.giveBack(r.current)
		r.current = r.private
	}
}

// Held is a query in the Log that is being answered. Its methods are for one goroutine. Nil is one that is not kept.
type Held struct {
	log   *Log
	place *place
}

// Done says that it needs no answer any more.
func (h *Held) Done() {
	if h != nil {
		h.log.giveBack(h.place)
	}
}

// clock tells CLOCK_BOOTTIME, which goes on when the process ends and when the machine sleeps, at the price of
// time.Since.
type clock struct {
	start time.Time
	boot  int64
}

func newClock() clock {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &now) // since Linux 2.6.39
	return clock{time.Now(), now.Nano()}
}

func (c clock) now() int64 { return c.boot + int64(time.Since(c.start)) }
