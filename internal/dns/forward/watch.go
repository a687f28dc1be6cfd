package forward

import (
	"os"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/sys/rawsock"
)

// mostBatches is the maximum number of event batches before the watcher looks at the clock.
const mostBatches = 16

// wakeSlot marks the eventfd among the slots.
const wakeSlot = -1

// newLane creates a lane and starts its watcher.
func newLane(f *Forward, index int) (*lane, error) {
	n := &lane{f: f, index: index, poll: poll{buffer: make([]byte, 1<<16)}}
	var err error
	if n.poll.epoll, err = rawsock.NewEpoll(); err != nil {
		return nil, err
	}
	if n.poll.wakeFD, err = unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC); err != nil {
		unix.Close(n.poll.epoll)
		return nil, os.NewSyscallError("eventfd", err)
	}
	n.poll.wake = os.NewFile(uintptr(n.poll.wakeFD), "mail")
	if err = n.watchSocket(n.poll.wakeFD, wakeSlot); err == nil {
		n.bell, err = rawsock.NewBell(n.poll.epoll)
	}
	if err != nil {
		n.poll.close()
		return nil, err
	}
	f.work.Go(n.watch)
	return n, nil
}

func (p *poll) close() {
	p.wake.Close()
	unix.Close(p.epoll)
}

// watch runs the event loop until the lane is shut.
func (n *lane) watch() {
	for !n.closing.Load() {
		n.turn()
	}
	n.end()
}

// turn is one iteration of the event loop. A panic costs at most one question.
func (n *lane) turn() {
	defer n.f.recovered(func(error) { time.Sleep(time.Millisecond) }) // avoid a tight loop if it panics again
	n.wakeInTime()
	_ = n.bell.Wait() // returns on an event or a deadline
	n.takeAll(0)
	if n.pace.IsBusy() && n.f.threads.Enter() {
		defer n.f.threads.Leave()
		n.takeBlocked()
	}
}

// takeAll handles events, mail and timers. It reads datagrams before it fires timers. So a process
// that was paused does not time out questions whose answers have already arrived.
func (n *lane) takeAll(wait time.Duration) {
	for range mostBatches {
		if n.takeEvents(wait) < len(n.poll.events) {
			break
		}
		wait = 0
	}
	n.takeMail()
	n.ringAll()
	n.takeMail()
	n.out.Flush()
}

// takeBlocked handles events in blocking polls until the lane is idle or closed.
func (n *lane) takeBlocked() {
	n.setInside(true)
	defer n.setInside(false)
	n.bell.Mute()
	defer n.bell.Unmute()
	for n.pace.IsBusy() && !n.closing.Load() {
		n.takeAll(min(rawsock.Timeout, n.f.config.Hedge))
	}
}

// setInside notes whether the watcher polls in the kernel. A lane that is no longer busy closes its
// idle sockets.
func (n *lane) setInside(isInside bool) {
	n.mu.Lock()
	n.isInside = isInside
	n.mu.Unlock()
	if !isInside {
		n.closeIdle()
	}
}

// wakeInTime sets the deadline of the next wait.
func (n *lane) wakeInTime() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.wakeLocked()
}

// takeEvents waits for events, handles them and returns their number.
func (n *lane) takeEvents(wait time.Duration) (events int) {
	count, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(n.poll.epoll), uintptr(unsafe.Pointer(&n.poll.events)),
		uintptr(len(n.poll.events)), uintptr(wait.Milliseconds()), 0, 0)
	if errno != 0 {
		count = 0
	}
	n.now = time.Now()
	for tries := n.triesOf(n.poll.events[:count]); len(tries) > 0; {
		tries = n.receiveAll(tries)
	}
	n.out.Flush()
	n.pace.Add(int(count), n.now)
	return int(count)
}

// triesOf returns the tries of events. It holds each, because handling one try may close another;
// the caller drops them.
func (n *lane) triesOf(events []unix.EpollEvent) []*try {
	tries := n.poll.tries[:len(events)]
	if len(events) == 0 {
		return tries
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for i, event := range events {
		tries[i] = nil
		if event.Fd == wakeSlot {
			var count [8]byte
			_, _ = unix.Read(n.poll.wakeFD, count[:]) // does not block
			continue
		}
		t := n.slots[event.Fd]
		switch {
		case t == nil || t.socket.fd < 0:
		case t.fl == nil:
			t.socket.uses = portUses // an attacker may know the port
			n.drain(t.socket.fd, someDatagrams)
		case t.isClosed:
			n.drain(t.socket.fd, someDatagrams) // discard a late one
		default:
			t.holds.Add(1)
			tries[i] = t
		}
	}
	return tries
}

// receiveAll reads from these tries. After a panic it returns the tries that it did not reach.
func (n *lane) receiveAll(tries []*try) (rest []*try) {
	defer func() {
		if p := recover(); p != nil {
			n.f.panicked(p)
			n.broken(rest[0])
			n.drop(rest[0])
			rest = rest[1:]
		}
	}()
	for rest = tries; len(rest) > 0; rest = rest[1:] {
		if t := rest[0]; t != nil {
			n.receive(t)
			n.drop(t)
		}
	}
	return nil
}

// broken ends the question of a try after a panic.
func (n *lane) broken(t *try) {
	defer n.f.recovered(func(error) {})
	fl := t.fl
	if fl == nil || fl.isFinished {
		return
	}
	fl.hasFailed = true
	n.finish(fl, flightResult{err: internal(fl)})
}

// takeMail handles mail until the mailbox is empty.
func (n *lane) takeMail() {
	for {
		n.mu.Lock()
		n.mailBatch, n.mail = n.mail, n.mailBatch[:0]
		n.mu.Unlock()
		if len(n.mailBatch) == 0 {
			return
		}
		n.now = time.Now()
		for i := range n.mailBatch {
			n.take(n.mailBatch[i])
			n.mailBatch[i] = mail{}
		}
	}
}

// take handles one mail.
func (n *lane) take(m mail) {
	defer func() {
		if m.fl != nil {
			n.releaseFlight(m.fl)
		}
		if m.t != nil {
			n.drop(m.t)
		}
	}()
	defer n.f.recovered(func(error) {
		if m.t != nil && !m.t.isClosed {
			n.broken(m.t)
		}
	})
	switch {
	case m.unreachable != nil:
		n.releaseUnreachable(m.unreachable)
	case m.fl != nil && m.isLeft:
		m.fl.isFinished, m.fl.isLeft = true, true
		n.clear(m.fl)
	case m.fl != nil:
		n.startTries(m.fl)
	case m.t.isClosed:
	case m.err != nil:
		n.failed(m.t, m.err)
	case m.msg == nil:
		copy(m.wire.Message, m.t.query[:2]) // the connection used an ID of its own
		n.heardWire(m.t, m.wire, 0)
	default:
		n.heard(m.t, m.msg, m.t.fl.spent.Total(), m.isStream)
	}
}

// releaseUnreachable passes the waiting queries of an unreachable route to the Handler, which may
// have stale answers.
func (n *lane) releaseUnreachable(r *route) {
	var all []*dnsserver.PendingQuery
	n.mu.Lock()
	for fl := r.lines[n.index].oldest; fl != nil; fl = fl.links[inRoute].newer {
		all = append(all, fl.releaseLocked()...)
	}
	n.mu.Unlock()
	dnsserver.HandleAll(all, &dnsserver.UpstreamResult{})
}

// ringAll fires the timers that are due.
func (n *lane) ringAll() {
	n.now = time.Now()
	for fl := n.nextDue(); fl != nil; fl = n.nextDue() {
		n.ringOne(fl)
		n.releaseFlight(fl)
	}
}

func (n *lane) ringOne(fl *flight) {
	defer n.f.recovered(func(err error) {
		if !fl.isFinished {
			fl.hasFailed = true
			n.finish(fl, flightResult{err: internal(fl)})
		}
	})
	n.ring(fl)
}

// nextDue returns a flight whose timer has fired, or nil. The caller must call releaseFlight: it
// may have the last hold.
func (n *lane) nextDue() *flight {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.timers) == 0 || n.timers[0].due.After(n.now) {
		return nil
	}
	fl := n.timers[0]
	n.timers.remove(fl)
	return fl.hold()
}

// end fails all questions and closes the lane. The last drop of a try closes its socket.
func (n *lane) end() {
	n.takeMail()
	var all []*flight
	n.mu.Lock()
	for fl := n.order.oldest; fl != nil; fl = fl.links[inLane].newer {
		all = append(all, fl.hold())
	}
	for _, fl := range n.timers {
		if !fl.isAsked {
			all = append(all, fl.hold())
		}
	}
	n.mu.Unlock()
	n.now = time.Now()
	for _, fl := range all {
		n.endOne(fl)
		n.releaseFlight(fl)
	}
	n.takeMail()
	n.out.Flush()
	n.senders.Wait() // no caller opens a socket after this
	n.closeIdle()
	n.poll.close()
}

func (n *lane) endOne(fl *flight) {
	defer n.f.recovered(func(error) {})
	if fl.isFinished {
		n.clear(fl)
	} else {
		n.fail(fl)
	}
}

// shut makes the watcher stop.
func (n *lane) shut() {
	n.mu.Lock()
	n.closed = true
	n.mu.Unlock()
	n.closing.Store(true)
	n.bell.Close()
}
