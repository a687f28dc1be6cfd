package dnsserver

import (
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/node-dns/node-dns/internal/dns/nameserver"
)

// PendingQuery is a query over UDP that is answered after its receiver has gone on to the next one. It has one of the MaxInFlight
// places. Send, SendWith or Handle ends it, from whatever goroutine: it must not be touched any more.
type PendingQuery struct {
	u      *udpSocket
	x      exchange
	query  WireQuery // zero: only the Handler can answer it
	sample sample
	over   atomic.Bool
	holds  atomic.Int32 // by who answers it, and by who has it answered; at 0 it is reused
	wire   [shortQuery]byte
}

// MissFunc takes over a query that Wire has no answer to, and calls Send or Handle sooner or later. With false it does not,
// and the Handler answers. It is called from many goroutines at once, from those that receive: it must not wait for
// anything.
type MissFunc func(*PendingQuery) bool

// drop has the last who holds it keep it for another query. Until Miss has returned it is this query's, and for good where
// Miss panics: then it may be answered twice, of which the first counts.
func (l *PendingQuery) drop() {
	if l.holds.Add(-1) == 0 {
		s := l.u.s
		*l = PendingQuery{}
		s.pending.Put(l)
	}
}

// Query is the query. It is valid until Send or Handle is called, and not to be changed.
func (l *PendingQuery) Query() *WireQuery { return &l.query }

// Send sends the response, which is from that nameserver; nil: none is sent.
func (l *PendingQuery) Send(response []byte, from nameserver.Handle) {
	if l.over.Swap(true) {
		return
	}
	response = l.u.s.finish(response, &l.query)
	l.count(response)
	l.tell(response, from)
	l.end(response)
}

// Client is who asks.
func (l *PendingQuery) Client() netip.Addr { return l.x.client.Addr() }

func (l *PendingQuery) count(response []byte) {
	if response == nil {
		l.u.s.counters.silent.Add(1)
	} else {
		l.u.s.countResponse(response, &l.u.s.counters.tally)
	}
}

// Handle has the Handler answer, on another goroutine. tried is Query.Tried for it.
func (l *PendingQuery) Handle(tried *UpstreamResult) {
	if l.over.Swap(true) {
		return
	}
	l.x.tried = tried
	go l.handle()
}

func (l *PendingQuery) handle() {
	s := l.u.s
	defer s.recovered(exchange{})
	buf := s.buffers.Get().(*[]byte)
	defer s.buffers.Put(buf)
	l.end(s.serve(l.x, *buf))
}

// end sends the response; nil: none is sent.
func (l *PendingQuery) end(response []byte) {
	defer l.ended()
	l.u.send(response, l.x.client)
	l.u.late.traffic.add(time.Since(l.x.arrived), l.sample.with(response))
}

func (l *PendingQuery) ended() {
	l.u.s.leave(l.x.client.Addr())
	l.u.active.Done()
	l.drop()
}

// tell tells of a query that was answered without the Handler.
func (l *PendingQuery) tell(response []byte, from nameserver.Handle) {
	s := l.u.s
	if took := l.x.took(); s.isTold(took, response) {
		seen := Seen{Query: l.x.wire, Response: response, Client: l.x.client, Proto: l.x.proto, Took: took, Outcome: ByUpstream, Server: from.Value()}
		s.late(seen)
	}
}
