package inflight

import (
	"net/netip"
	"slices"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/internal/sys/sockaddr"
)

// restSize is how much longer than maxQuery a datagram may be. It takes memory only when one is.
const restSize = 1<<16 - maxQuery

// Receiver receives the queries of one socket. It belongs to one goroutine.
type Receiver struct {
	log      *Log
	clock    clock
	batch    *batch
	isKept   bool   // the batch is the Log's; it has more Receivers than batches otherwise
	rest     []byte // BatchSize times restSize, not of Go's heap; nil: the machine has no room for it
	room     int    // how many messages are asked for
	single   int    // how often in turn that was one
	received int
	stock    []*place // free ones, so that the Log is asked for several at a time
}

// stockSize is how many places a Receiver has at most that it may not need.
const stockSize = 16

// Receive returns a Receiver for a socket that is bound to local. Release it when nothing is received any more.
func (l *Log) Receive(local netip.AddrPort) *Receiver {
	r := &Receiver{log: l, clock: newClock(), batch: l.takeBatch(), isKept: true, room: 1}
	if r.batch == nil {
		r.batch, r.isKept = new(batch), false
	}
	r.batch.local = newEndpoint(local)
	r.rest, _ = unix.Mmap(-1, 0, BatchSize*restSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	r.batch.init(r.rest)
	return r
}

// Receive receives what waits in the socket, in place of what it received before, and returns how many messages that are:
// 1 to BatchSize, or 0 with an error. Where nothing waits the error is EAGAIN; a socket that blocks is waited for, for as
// long as SO_RCVTIMEO says, if wait is true. Go's scheduler does not learn of that: see dnsserver.
func (r *Receiver) Receive(fd uintptr, wait bool) (int, error) {
	r.Done()
	r.batch.arrived = 0
	flags := uintptr(unix.MSG_DONTWAIT)
	if wait {
		flags = unix.MSG_WAITFORONE
	}
	n, _, errno := unix.RawSyscall6(unix.SYS_RECVMMSG, fd, uintptr(unsafe.Pointer(&r.batch.messages)), uintptr(r.room), flags, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	r.batch.arrived = r.clock.now()
	r.received = int(n)
	r.makeRoom()
	return r.received, nil
}

// probe is how often in turn one message is asked for before it is seen whether more wait.
const probe = 8

// makeRoom chooses for how many messages to ask next. Where they come one by one that is one: for each of more the kernel prepares
// all that it takes to hand one out, before it finds that there is none.
func (r *Receiver) makeRoom() {
	switch {
	case r.room == 1:
		if r.single++; r.single == probe {
			r.room, r.single = 4, 0
		}
	case r.received == 1:
		r.room = 1
	case r.received == r.room:
		r.room = min(4*r.room, BatchSize)
	}
}

// Arrived is when the messages were received, by the clock of time.Now.
func (r *Receiver) Arrived() time.Time {
	return r.clock.start.Add(time.Duration(r.batch.arrived - r.clock.boot))
}

// Query returns message i of those that were received last, and who sent it. It is valid until the next Receive, and to be
// changed by nobody.
func (r *Receiver) Query(i int) (wire []byte, client netip.AddrPort) {
	n := int(r.batch.messages[i].length)
	wire = r.batch.queries[i][:min(n, maxQuery)]
	if n > maxQuery {
		wire = slices.Concat(wire, r.rest[i*restSize:][:n-maxQuery])
	}
	return wire, sockaddr.AddrPort(&r.batch.clients[i])
}

// Client is who sent message i, as the kernel names it. It is valid until the next Receive.
func (r *Receiver) Client(i int) (name *unix.RawSockaddrInet6, size uint32) {
	return &r.batch.clients[i], r.batch.messages[i].nameLength
}

// Done says that nothing of what was received last needs an answer any more, but for what is held.
func (r *Receiver) Done() {
	for i := range r.received {
		r.batch.prepare(i)
	}
	r.received = 0
}

// Hold puts message i aside, and returns it as it stands there. It is valid until Held is Done.
func (r *Receiver) Hold(i int) (wire []byte, held Held) {
	if n := r.batch.messages[i].length; n > 0 && n <= maxQuery && r.isKept {
		if p := r.takePlace(); p != nil {
			p.fill(r.batch, i)
			r.batch.clear(i) // now it stands there
			return p.wire(), Held{r.log, p}
		}
	}
	wire, _ = r.Query(i)
	return slices.Clone(wire), Held{}
}

func (r *Receiver) takePlace() *place {
	if len(r.stock) == 0 {
		r.stock = r.log.take(r.stock, stockSize)
	}
	last := len(r.stock) - 1
	if last < 0 {
		return nil
	}
	p := r.stock[last]
	r.stock = r.stock[:last]
	return p
}

// Release gives the batch back. What was received is Done.
func (r *Receiver) Release() {
	r.Done()
	r.log.giveBack(r.stock...)
	r.stock = nil
	if r.isKept {
		r.log.giveBackBatch(r.batch)
	}
	if r.rest != nil {
		_ = unix.Munmap(r.rest)
	}
	r.batch, r.rest = nil, nil
}

// Held is a query in the Log that is being answered. Its methods are for one goroutine. The zero value is one that is not
// kept.
type Held struct {
	log   *Log
	place *place
}

// IsKept reports whether the query outlives the process.
func (h Held) IsKept() bool { return h.place != nil }

// Done says that it needs no answer any more.
func (h Held) Done() {
	if h.place != nil {
		h.log.giveBack(h.place)
	}
}

// Done says of all of them that they need no answer any more, at the price of one.
func Done(all []Held) {
	var room [BatchSize]*place
	var log *Log
	places := room[:0]
	for _, h := range all {
		switch {
		case h.place == nil:
		case log == nil || log == h.log:
			log, places = h.log, append(places, h.place)
		default:
			h.Done()
		}
	}
	log.giveBack(places...)
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
