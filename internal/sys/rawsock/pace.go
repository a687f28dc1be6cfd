// Package rawsock has what package net does not do with sockets: it waits for a busy one in the kernel, and converts the addresses
// of raw system calls.
//
// Go's netpoller wakes a thread for every packet at a moderate rate: a query costs 3 times as much there as where a thread
// waits in the system call that receives it. Go's own blocking system calls are no better: the scheduler takes the processor away
// from a thread that waits, and has to find one again. So a busy reader waits in a raw system call, of which the scheduler does
// not learn. That has a price: the thread keeps its processor (GOMAXPROCS counts one more for each), and before the garbage
// collector can stop the world, the signal by which Go preempts must end the call. It does for epoll_wait(2), and for receiving
// where SO_RCVTIMEO is set (signal(7)). An idle reader would be woken by that signal 100 times a second: it waits in the
// netpoller again.
package rawsock

import (
	"runtime"
	"time"
)

const (
	// Rate and idleRate are the events a second from which on something is busy, and below which it is not any more: where
	// what it costs to be preempted is what the netpoller costs.
	Rate     = 200
	idleRate = 100
	// window is over how long they are counted.
	window = 100 * time.Millisecond
)

// Timeout is how long who is busy waits in the kernel before it looks whether it still is.
const Timeout = 50 * time.Millisecond

// Pace counts events. It belongs to one goroutine. The zero Pace is idle.
type Pace struct {
	busy  bool
	n     int
	since time.Time
}

// IsBusy reports whether there are many.
func (p *Pace) IsBusy() bool { return p.busy }

// Add counts n events more.
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

// Threads are those that may wait in the kernel. Its methods may be called concurrently. Nil has none.
type Threads chan struct{}

// NewThreads returns n of them.
func NewThreads(n int) Threads { return make(Threads, n) }

// Enter takes one; false: all are taken. Who got one must leave, and waits by raw system calls until then.
//
// It wakes another thread, which goes on to wait in the netpoller. Where the program had nothing to do the calling one did that
// for all, and the scheduler's own, which would look after 10 ms, sleeps for a minute until a thread enters a system call that
// the scheduler learns of: everybody else was woken by no packet and at no deadline until then (Go 1.26).
func (t Threads) Enter() bool {
	select {
	case t <- struct{}{}:
		runtime.Gosched()
		return true
	default:
		return false
	}
}

// Leave gives it back.
func (t Threads) Leave() { <-t }
