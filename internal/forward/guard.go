package forward

import (
	"errors"
	"time"

	"github.com/miekg/dns"

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
	if n.bell.Wait() == nil { // else a question is overdue
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
	waiting, fl, ok := n.take(a)
	switch {
	case fl != nil:
		fl.report(outcome{attempt: attempt{to: a.server}, err: errInternal})
	case ok:
		handle(waiting, &dnsserver.Tried{Err: n.f.internal(a)})
		n.drop(a)
	}
}

// deliver gives a Reply to who wants it. Those whose queries it has not ended when it panics ask the Handler, which may have
// an answer nevertheless.
func (f *Forward) deliver(r Reply) {
	defer f.recovered(func(error) {
		for _, l := range r.Waiting {
			if l != nil {
				l.Handle(nil)
			}
		}
	})
	f.answered(r)
}

// internal is what a client is told of a question that something panicked at.
func (f *Forward) internal(a *asking) error {
	return extended(dns.ExtendedErrorCodeOther, "no response from "+a.server.Server.String()+" ("+errInternal.Error()+")", questionOfKey(a.key), errInternal)
}
