package dnsserver

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/internal/sys/rawsock"
)

// udpSocket is a bound UDP socket. A response leaves through the socket that received the query, so
// its source is the address that the query was sent to.
type udpSocket struct {
	s         *Server
	file      *udpFile
	local     netip.AddrPort
	stopping  atomic.Bool    // receive nothing more
	receiver  *receiver      // the receiver of this socket
	receiving sync.WaitGroup // done when the receiver has left the socket
	active    sync.WaitGroup // queries in flight

	// Used only by the receiver's goroutine, and after it by receiveLast.
	*workspace
	room room

	tally tally
	late  tally // for queries answered after the receiver has moved on
}

// workspace is the memory in which a goroutine answers one batch of queries from a socket. The
// sockets of a receiver share it, so that many addresses need no more memory than one.
type workspace struct {
	in         batch
	out        outbox
	counts     counts
	waitBudget waitBudget // waiting time for slots
	query      WireQuery
	watch      *watching // Watch of the current batch; nil disables it
	picks      sampler   // sampling of its hits
	comesBack  *IsOwn    // IsOwn of the current batch; nil disables it
}

// newWorkspace returns a workspace. The caller must call in.release.
func newWorkspace() *workspace {
	w := &workspace{waitBudget: newWaitBudget(time.Now())}
	w.in.init()
	return w
}

// newUDPSocket returns a socket. receiver.add gives it a workspace.
func (s *Server) newUDPSocket(file *udpFile, local netip.AddrPort) *udpSocket {
	u := &udpSocket{s: s, file: file, local: local, room: room{n: 1}}
	u.tally.traffic, u.late.traffic = newTraffic(UDP, local.Addr()), newTraffic(UDP, local.Addr())
	s.addTally(&u.tally)
	s.addTally(&u.late)
	return u
}

// close closes a stopped socket.
func (u *udpSocket) close() {
	u.file.close()
	u.s.removeTally(&u.tally)
	u.s.removeTally(&u.late)
}

// stop stops receiving and waits until all received queries are answered or ctx ends. Later
// responses can still be sent. It may be called again.
func (u *udpSocket) stop(ctx context.Context) error {
	u.stopping.Store(true)
	u.receiver.wake()
	u.receiving.Wait() // the receiver blocks only on sockets; after this, no query is added
	return wait(ctx, &u.active)
}

// receiveBatch receives once, answers what it can at once, and returns the number of queries and
// the time of receipt.
func (u *udpSocket) receiveBatch(fd uintptr, wait bool) (n int, now time.Time) {
	n, err := u.in.receive(fd, wait, &u.room)
	switch err {
	case nil:
		if u.watch = u.s.watch.Load(); u.watch != nil {
			u.picks.begin(u.in.arrived, u.watch.hits)
		}
		u.comesBack = u.s.comesBack.Load()
		for next := 0; next < n; {
			next = u.receivedFrom(next, n)
		}
		u.flush(fd)
		u.counts.move(&u.tally)
		return n, u.in.arrived
	case unix.EAGAIN, unix.EINTR:
	default:
		// The errors that the kernel reports here (ENOBUFS, ENOMEM, ENETDOWN) are temporary.
		time.Sleep(time.Millisecond)
	}
	return 0, time.Now()
}

// receivedFrom handles the datagrams i to n-1 of a batch and returns the index of the next one.
// After a panic this is the datagram after the one that caused it, which gets SERVFAIL.
func (u *udpSocket) receivedFrom(i, n int) (next int) {
	defer func() {
		if p := recover(); p != nil {
			wire, client := u.in.query(next)
			u.s.panicked(exchange{wire: wire, client: client}, p)
			u.s.counters.failed.Add(1)
			if len(wire) >= headerSize {
				u.out.add(errorReply(wire, dns.RcodeServerFailure), client, newSample(wire))
			}
			next++
		}
	}()
	for next = i; next < n; next++ {
		wire, client := u.in.query(next)
		u.received(next, wire, client)
	}
	return next
}

// received handles datagram i of a batch.
func (u *udpSocket) received(i int, wire []byte, client netip.AddrPort) {
	v, rcode := accept(wire)
	if u.comesBack != nil && v == parse {
		if response := u.comesBack.answerOwn(wire); response != nil {
			u.tally.own.Add(1)
			u.send(response, client)
			return
		}
	}
	x := exchange{wire: wire, client: client, local: u.local, proto: UDP, arrived: u.in.arrived}
	if v == parse && client.Port() > 0 {
		if response := u.s.answerProbe(&x); response != nil {
			u.tally.own.Add(1)
			u.send(response, client)
			return
		}
	}
	u.counts.received++
	if v == drop || client.Port() == 0 { // source port 0 is forged
		u.tally.dropped.Add(1)
		return
	}
	if why := u.s.access.Load().denies(u.local, client.Addr()); why != allowed {
		u.refuse(x, u.s.deny(x, why), newSample(wire), why)
		return
	}
	if v == refuse {
		u.tally.refused.Add(1)
		u.refuse(x, u.s.refuse(x, rcode), newSample(wire), allowed)
		return
	}
	u.accepted(i, &x)
}

// say adds a response to the next flush unless it is nil.
func (u *udpSocket) say(response []byte, client netip.AddrPort, query sample) {
	if len(response) == 0 {
		u.tally.traffic.add(0, query)
		return
	}
	u.out.add(response, client, query)
}

// accepted answers at once or passes the query on.
func (u *udpSocket) accepted(i int, x *exchange) {
	q := &u.query
	response, isWire := u.s.onWire(x, q, u.out.buffer()[:0])
	if response != nil {
		u.counts.add(response)
		name, size := u.in.client(i)
		u.out.addTo(response, name, size, q.sample())
		if u.watch != nil {
			u.watch.hit(x, response, &u.picks)
		}
		if isFailure(response) {
			u.s.failedAt(x, response, ByWire, "")
		}
		return
	}
	switch u.s.enter(x.client.Addr()) {
	case enough: // do not make other clients wait for this one
		u.refuse(*x, u.s.crowd(*x, crowding), q.sample(), crowding)
		return
	case spent:
		u.refuse(*x, u.s.crowd(*x, costly), q.sample(), costly)
		return
	case full:
		if !u.waitToEnter(x.client.Addr()) {
			u.say(u.s.shed(*x, nil), x.client, q.sample())
			return
		}
	}
	u.later(x, q, isWire)
}

// refuse sends the server's own response to a query unless it is nil.
func (u *udpSocket) refuse(x exchange, response []byte, query sample, why denial) {
	u.say(response, x.client, query)
	u.s.denied(u.watch, x, response, why)
}

// waitToEnter waits for a slot within the receiver's wait budget. If the socket is stopped
// while it waits, the query enters without a slot: it has been read, so no other process can answer
// it.
func (u *udpSocket) waitToEnter(client netip.Addr) bool {
	u.counts.move(&u.tally)
	_ = u.file.Control(u.flush) // send the finished responses first
	began := time.Now()
	entered := u.s.waitToEnter(client, u.waitBudget.at(began), &u.stopping)
	u.waitBudget.spend(time.Since(began))
	return entered
}

// flush sends the responses of a batch.
func (u *udpSocket) flush(fd uintptr) {
	n := u.out.n
	if n == 0 {
		return
	}
	u.counts.move(&u.tally) // before sending, so that a client with a response finds it counted
	if failed := u.out.flush(fd); failed > 0 {
		u.s.counters.writeErrors.Add(uint64(failed))
	}
	u.tally.traffic.sent(u.in.arrived, u.out.samples[:n])
}

// udpSockets are the sockets of one address. The kernel distributes queries among them
// (SO_REUSEPORT of socket(7)) by CPU; see steer.
type udpSockets []*udpSocket

var _ socket = udpSockets(nil)

func (all udpSockets) drain(ctx context.Context) error {
	err := all.stop(ctx)
	if err == nil {
		for _, u := range all {
			u.receiveLast()
		}
		err = all.stop(ctx)
	}
	for _, u := range all {
		u.close()
	}
	return err
}

// mostLast bounds receiveLast: clients may still send.
const mostLast = 4096

// receiveLast receives the queries in the buffer of a stopped socket that is about to close. A busy
// node leaves a few hundred of them there.
func (u *udpSocket) receiveLast() {
	u.workspace = newWorkspace()
	defer u.in.release()
	_ = u.file.Control(func(fd uintptr) { // fails on a closed socket only
		for left := mostLast; left > 0; {
			n, _ := u.receiveBatch(fd, false)
			if n == 0 {
				return
			}
			left -= n
		}
	})
}

func (all udpSockets) stop(ctx context.Context) error {
	errs := make([]error, len(all))
	var group sync.WaitGroup
	for i, u := range all {
		group.Go(func() { errs[i] = u.stop(ctx) })
	}
	group.Wait()
	return errors.Join(errs...)
}

// blockBriefly sets a timeout for blocking receives, and lets a signal interrupt them; see busy.
func blockBriefly(fd int) error {
	timeout := unix.NsecToTimeval(rawsock.Timeout.Nanoseconds())
	return unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &timeout)
}

// later answers a query that has a slot on another goroutine. It copies the query, because its
// memory belongs to the receiver. q was read from it; isWire is false if it is not a WireQuery.
func (u *udpSocket) later(x *exchange, q *WireQuery, isWire bool) {
	u.counts.move(&u.tally)
	l, _ := u.s.pending.Get().(*PendingQuery)
	if l == nil {
		l = new(PendingQuery)
	}
	l.u, l.x, l.sample = u, *x, q.sample()
	wire, cookie := x.wire, q.cookie
	if isWire {
		wire = q.Msg
	}
	if len(wire) > shortQuery {
		wire, cookie = shortened(wire)
	}
	l.x.wire = append(l.wire[:0], wire...) // a longer one, which has a fault, is allocated
	if isWire {
		l.query = *q
		l.query.Msg, l.query.cookie = l.x.wire, cookie
	}
	l.holds.Store(2)
	u.active.Add(1)
	if !isWire || u.s.cfg.Miss == nil || !u.s.miss(l) {
		l.Handle(nil)
	}
	l.drop()
}

func (u *udpSocket) send(response []byte, client netip.AddrPort) {
	if response == nil {
		return
	}
	if err := u.file.send(response, client); err != nil {
		u.s.counters.writeErrors.Add(1)
	}
}

// miss calls Config.Miss and recovers from its panics. After a panic it is unknown how far Miss got
// with the query.
func (s *Server) miss(l *PendingQuery) (taken bool) {
	defer func() {
		if p := recover(); p != nil {
			s.panicked(l.x, p)
			// Keep the memory: the code that still has a reference must not find another query in
			// it.
			l.holds.Add(1)
			taken = false
		}
	}()
	return s.cfg.Miss(l)
}
