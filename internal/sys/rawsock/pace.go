// Package rawsock does what package net cannot do with sockets: it waits for a busy socket in the
// kernel, converts the addresses of raw system calls, and lets an idle process wait, check and
// notify without waking Go's scheduler.
//
// At a moderate rate Go's netpoller wakes a thread for every packet, so a query costs 3 times as
// much as with a thread that waits in the receiving system call. Go's normal blocking system calls
// are no better: the scheduler takes the CPU away from the waiting thread and must find one again.
// So a busy reader waits in a raw system call, which the scheduler does not know of. This has a
// price. The thread keeps its CPU (GOMAXPROCS counts one more for each). And before the garbage
// collector can stop the world, Go's preemption signal must interrupt the call. It interrupts
// epoll_wait(2), and receive calls if SO_RCVTIMEO is set (signal(7)). That signal would wake an
// idle reader 100 times per second, so an idle reader waits in the netpoller again.
package rawsock

import (
	"runtime"
	"time"
)

const (
	// Rate is the number of events per second from which a reader is busy, and idleRate that below
	// which it is idle again. In between, preemption costs as much as the netpoller.
	Rate     = 200
	idleRate = 100
	// window is the time over which events are counted.
	window = 100 * time.Millisecond
)

// Timeout is how long a busy reader waits in the kernel before it checks whether it is still busy.
const Timeout = 50 * time.Millisecond

// Pace measures the rate of events. It belongs to one goroutine. The zero Pace is idle.
type Pace struct {
	busy  bool
	n     int
	since time.Time
}

// IsBusy reports whether the rate is high.
func (p *Pace) IsBusy() bool { return p.busy }

// Add counts n events.
func (p *Pace) Add(n int, now time.Time) {
	p.n += n
	elapsed := now.Sub(p.since)
	if elapsed < window {
		return
	}
	rate := float64(p.n) / elapsed.Seconds()
	p.busy = rate >= Rate || p.busy && rate >= idleRate
	p.n, p.since = 0, now
}

// Threads limits the number of threads that wait in the kernel. Its methods may be called
// concurrently. A nil Threads allows none.
type Threads chan struct{}

// NewThreads returns a Threads that allows n.
func NewThreads(n int) Threads { return make(Threads, n) }

// Enter takes a slot. It returns false if all are taken. After true, the caller must call Leave,
// and waits by raw system calls until then.
//
// Enter wakes another thread, which then waits in the netpoller. In an idle program, the calling
// thread did that for all. The scheduler's own thread, which would check after 10 ms, sleeps for a
// minute until a thread enters a system call that the scheduler knows of. Until then no other
// goroutine was woken by packets or deadlines (Go 1.26).
func (t Threads) Enter() bool {
	select {
	case t <- struct{}{}:
		runtime.Gosched()
		return true
	default:
		return false
	}
}

// Leave returns the slot.
func (t Threads) Leave() { <-t }
