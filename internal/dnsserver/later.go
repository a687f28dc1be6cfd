package dnsserver

import (
	"net/netip"
	"sync/atomic"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/inflight"
	"github.com/node-dns/node-dns/internal/nameserver"
)

// Later is a query over UDP that is answered after its receiver has gone on to the next one. It has one of the MaxInFlight
// places. Send or Handle ends it: the first call counts, from whatever goroutine.
type Later struct {
	u     *udpSocket
	x     exchange
	query WireQuery // zero: only the Handler can answer it
	held  inflight.Held
	over  atomic.Bool
}

// MissFunc takes over a query that Wire has no answer to, and calls Send or Handle sooner or later. With false it does not,
// and the Handler answers. It is called from many goroutines at once, from those that receive: it must not wait for
// anything.
type MissFunc func(*Later) bool

// Tried is what came of asking an upstream nameserver before the Handler is asked: that server had its turn.
type Tried struct {
	Server nameserver.Server
	Msg    *dns.Msg // its response, which is no answer; nil: Err says why there is none
	Err    error    // nil without Msg: it was silent
	// Truncated says that it has an answer, which is to be asked for over TCP.
	Truncated bool
	NoEDNS    bool // it is to be asked again without EDNS
	IsFinal   bool // Msg is the answer after all: there is more in it than Send could say
}

// IsSilent reports whether the server has said nothing.
func (t *Tried) IsSilent() bool { return t.Msg == nil && t.Err == nil && !t.Truncated && !t.NoEDNS }

// later answers a query that has a place. q is zero for one that is no WireQuery.
func (u *udpSocket) later(x exchange, q WireQuery, held inflight.Held) {
	l := &Later{u: u, x: x, query: q, held: held}
	u.active.Add(1)
	if q.Msg == nil || u.s.cfg.Miss == nil || !u.s.miss(l) {
		l.Handle(nil)
	}
}

// miss is Config.Miss, whatever it does: of a query that it panics at nobody knows how far it came.
func (s *Server) miss(l *Later) (taken bool) {
	defer func() {
		if p := recover(); p != nil {
			s.panicked(l.x, p)
			taken = false
		}
	}()
	return s.cfg.Miss(l)
}

// Query is the query. Its Msg is valid until Send or Handle is called.
func (l *Later) Query() WireQuery { return l.query }

// Send sends the response; nil: none is.
func (l *Later) Send(response []byte) {
	if l.over.Swap(true) {
		return
	}
	if response == nil {
		l.u.s.counters.silent.Add(1)
	} else {
		l.u.s.countResponse(response, &l.u.s.counters.tally)
	}
	l.end(response)
}

// Handle has the Handler answer, on another goroutine. tried is Query.Tried for it.
func (l *Later) Handle(tried *Tried) {
	if l.over.Swap(true) {
		return
	}
	l.x.tried = tried
	go l.handle()
}

func (l *Later) handle() {
	s := l.u.s
	buf := s.buffers.Get().(*[]byte)
	defer s.buffers.Put(buf)
	l.end(s.serve(l.x, *buf))
}

// end sends the response, unless a successor is to answer.
func (l *Later) end(response []byte) {
	defer l.u.active.Done()
	defer l.u.s.leave()
	if l.u.s.left.Load() {
		return
	}
	l.u.send(response, l.x.client)
	l.held.Done()
}

func (u *udpSocket) send(response []byte, client netip.AddrPort) {
	if response == nil {
		return
	}
	if err := u.file.send(response, client); err != nil {
		u.s.counters.writeErrors.Add(1)
	}
}
