package dnsserver

import (
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"github.com/node-dns/node-dns/internal/dns/nameserver"
)

// PendingQuery is a UDP query that is answered after its receiver has moved on. It holds one of the
// MaxInFlight slots. Send, SendWith and Handle end it, from any goroutine; it must not be used
// afterwards.
type PendingQuery struct {
	u      *udpSocket
	x      exchange
	query  WireQuery // zero if only the Handler can answer it
	sample sample
	over   atomic.Bool
	holds  atomic.Int32 // references of the answering code and of miss; reused at 0
	wire   [shortQuery]byte
}

// MissFunc handles a query that the fast path could not answer, and must eventually call Send or
// Handle. If it returns false, the Handler answers instead. It is called from many receiving
// goroutines at once, so it must not block.
type MissFunc func(*PendingQuery) bool

// drop releases one reference and reuses the memory at the last one. miss holds a reference until
// Miss has returned, and forever if Miss panics. After a panic the query may be answered twice; the
// first answer wins.
func (l *PendingQuery) drop() {
	if l.holds.Add(-1) == 0 {
		s := l.u.s
		*l = PendingQuery{}
		s.pending.Put(l)
	}
}

// Query returns the query. It is valid until Send or Handle is called, and must not be modified.
func (l *PendingQuery) Query() *WireQuery { return &l.query }

// Send sends the response that came from the given nameserver. If response is nil, no response is
// sent.
func (l *PendingQuery) Send(response []byte, from nameserver.Handle) {
	if l.over.Swap(true) {
		return
	}
	response = l.u.s.finish(response, 0, &l.query)
	l.count(response)
	l.tell(response, from)
	l.end(response)
}

// Client returns the address of the client.
func (l *PendingQuery) Client() netip.Addr { return l.x.client.Addr() }

func (l *PendingQuery) count(response []byte) {
	if response == nil {
		l.u.s.counters.silent.Add(1)
	} else {
		l.u.s.countResponse(response, &l.u.s.counters.tally)
	}
}

// Handle calls the Handler on another goroutine. tried becomes Query.Tried.
func (l *PendingQuery) Handle(tried *UpstreamResult) {
	if !l.over.Swap(true) {
		l.x.tried = tried
		go l.handle()
	}
}

// mostCopies is the maximum number of queries with the same UpstreamResult.Msg that are handled at
// a time. Each of them copies it, and it may have thousands of records.
const mostCopies = 64

// HandleAll is Handle for queries with the same result. The caller may reuse all.
func HandleAll(all []*PendingQuery, tried *UpstreamResult) {
	if tried == nil || tried.Msg == nil || len(all) <= mostCopies {
		for _, l := range all {
			l.Handle(tried)
		}
		return
	}
	all = slices.Clone(all)
	next := new(atomic.Int64)
	for range mostCopies {
		go func() {
			for i := next.Add(1) - 1; i < int64(len(all)); i = next.Add(1) - 1 {
				if l := all[i]; !l.over.Swap(true) {
					l.x.tried = tried
					l.handle()
				}
			}
		}()
	}
}

func (l *PendingQuery) handle() {
	s := l.u.s
	defer s.recovered(exchange{})
	buf := s.buffers.Get().(*[]byte)
	defer s.buffers.Put(buf)
	l.end(s.serve(l.x, *buf))
}

// end sends the response unless it is nil.
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

// tell reports a query that was answered without the Handler to the watchers.
func (l *PendingQuery) tell(response []byte, from nameserver.Handle) {
	s := l.u.s
	if took := l.x.took(); s.isObserved(took, response) {
		seen := Seen{Query: l.x.wire, Response: response, Client: l.x.client, Proto: l.x.proto, Took: took, Outcome: ByUpstream, Server: from.Value()}
		s.late(seen)
	}
}
