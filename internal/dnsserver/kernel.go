package dnsserver

import (
	"time"

	"golang.org/x/sys/unix"
)

// Go's netpoller wakes a thread for every packet at a moderate rate: a query costs 3 times as much there as where a thread
// waits in recvmmsg(2), and Go's own system calls are no better, since the scheduler takes the processor away from a thread
// that waits, and has to find one again. So a receiver that is busy waits in the kernel without telling the scheduler.
// That has its price: the thread keeps its processor (GOMAXPROCS counts one more for each, see Config.Threads), and before
// the garbage collector can stop the world the signal by which Go preempts has to end the call. SO_RCVTIMEO is set, and with
// it such a call ends with EINTR, whatever SA_RESTART says (signal(7)). Idle, it would be woken by it 100 times a second;
// then it waits in the netpoller again.

const (
	// busyRate and idleRate are the queries a second from which on a receiver waits in the kernel, and below which it does
	// not any more: where what it costs to be preempted is what the netpoller costs.
	busyRate = 200
	idleRate = 100
	// paceWindow is over how long they are counted.
	paceWindow = 100 * time.Millisecond
	// kernelTimeout is how long a receiver waits in the kernel before it looks whether it is to stop, or is idle.
	kernelTimeout = 50 * time.Millisecond
)

// pace tells whether a receiver is busy.
type pace struct {
	busy  bool
	n     int
	since time.Time
}

// add counts n queries more.
func (p *pace) add(n int, now time.Time) {
	p.n += n
	elapsed := now.Sub(p.since)
	if elapsed < paceWindow {
		return
	}
	rate := float64(p.n) / elapsed.Seconds()
	p.busy = rate >= busyRate || p.busy && rate >= idleRate
	p.n, p.since = 0, now
}

// enterKernel takes one of Config.Threads; who got one must leave.
func (s *Server) enterKernel() bool {
	select {
	case s.threads <- struct{}{}:
		return true
	default:
		return false
	}
}

func (s *Server) leaveKernel() { <-s.threads }

// receiveBlocked receives until the receiver is idle, or stops.
func (u *udpSocket) receiveBlocked(fd uintptr) {
	if unix.SetNonblock(int(fd), false) != nil {
		return
	}
	defer unix.SetNonblock(int(fd), true)
	for u.pace.busy && !u.stopping.Load() {
		_, _ = u.receiveBatch(fd, true) // what fails passes
	}
}

// blockBriefly bounds how long a call waits that blocks.
func blockBriefly(fd int) error {
	timeout := unix.NsecToTimeval(kernelTimeout.Nanoseconds())
	return unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &timeout)
}
