package forward

import (
	"errors"
	"time"

	"github.com/node-dns/node-dns/internal/dnsserver"
	"github.com/node-dns/node-dns/internal/journal"
)

// errInternal is how what panics fails.
var errInternal = errors.New("internal error")

// recovered is deferred where a panic is to end one question alone, or less. failed is told.
func (f *Forward) recovered(failed func(error)) {
	if p := recover(); p != nil {
		f.panicked(p)
		failed(errInternal)
	}
}

// panicked is called with what recover returned, by the deferred function.
func (f *Forward) panicked(p any) {
	f.panics.Caught(f.log, "asking a nameserver panicked", journal.QueryPanic, p)
}

// turn is what a watcher does at a time, whatever it does.
func (n *lane) turn() {
	defer n.f.recovered(func(error) { time.Sleep(time.Millisecond) }) // it may do so again at once
	n.wakeInTime()
	if n.bell.Wait() == nil { // else the oldest question is overdue
		n.takeEvents(0)
	}
	n.overdue(time.Now())
	if n.pace.IsBusy() && n.f.threads.Enter() {
		defer n.f.threads.Leave()
		n.takeBlocked()
	}
}

// receiveAll takes what has come for these questions, and returns those behind one that it panicked at.
func (n *lane) receiveAll(asked []*asking) (rest []*asking) {
	defer func() {
		if p := recover(); p != nil {
			n.f.panicked(p)
			n.broken(rest[0])
			rest = rest[1:]
		}
	}()
	for rest = asked; len(rest) > 0; rest = rest[1:] {
		if rest[0] != nil {
			n.receive(rest[0])
		}
	}
	return nil
}

// broken ends a question that something panicked at, unless it has ended before.
func (n *lane) broken(a *asking) {
	if waiting, ok := n.take(a); ok {
		handle(waiting, &dnsserver.Tried{Server: a.server.Server, Err: errInternal})
		n.drop(a)
	}
}

// deliver gives a Reply to who wants it. Those whose queries it has not ended when it panics ask the Handler, which may have
// an answer nevertheless.
func (n *lane) deliver(r Reply) {
	defer n.f.recovered(func(error) {
		for _, l := range r.Waiting {
			if l != nil {
				l.Handle(nil)
			}
		}
	})
	n.f.answered(r)
}

// missed accounts for a try of a server that was silent.
func (n *lane) missed(s *server) {
	defer n.f.recovered(func(error) {})
	s.timedOut(n.f.tryTimeout)
	n.f.check(s)
}
