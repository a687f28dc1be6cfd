package dnsserver

import (
	"context"
	"encoding/hex"
	"errors"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/sys/journal"
	"github.com/node-dns/node-dns/internal/sys/rawsock"
)

// ErrStopped is what Listen returns after Shutdown.
var ErrStopped = errors.New("the server is stopped")

// Server receives queries on the addresses given to Listen. Its methods may be
// called from any goroutine.
type Server struct {
	cfg      Config
	made     time.Time    // with its monotonic reading: the wall clock may jump
	places   atomic.Int64 // how many queries may be handled at once
	shared   atomic.Int64 // Config.Shared
	largest  atomic.Int64 // octets of a response over UDP
	cookies  cookieSecret
	clock    func() time.Time // that they are made by
	counters counters
	panics   journal.Panics
	buffers  sync.Pool // *[]byte of bufferSize, to pack responses into
	pending  sync.Pool // *PendingQuery
	conns    *connTable
	spare    spare

	access   atomic.Pointer[Access] // nil: everyone may ask
	shares   *Shares                // of the places
	spending *Limiter               // of octets from upstream nameservers
	errors   *Limiter               // of responses that say no
	limited  atomic.Uint64          // of which one in slip is sent
	watch    atomic.Pointer[Watch]  // nil: nobody wants to know

	// queries is the parent of every query's context.
	queries context.Context
	cancel  context.CancelFunc

	changing  sync.Mutex       // held by Listen and Shutdown: one change at a time
	terms     Terms            // guarded by it
	termsAt   []netip.AddrPort // likewise: where terms hold; empty: everywhere
	addresses int              // that Listen was given; likewise

	threads rawsock.Threads

	mu       sync.Mutex // guards what follows
	stopped  bool
	bindings []*binding
	tallies  []*tally  // of the receivers
	gone     []Traffic // of those that have ended
}

// bufferSize is enough for nearly every response; a larger one gets its own.
const bufferSize = 4096

// New makes a server that listens on nothing yet.
func New(cfg Config) *Server {
	s := &Server{cfg: cfg.withDefaults(), made: time.Now(), cookies: newCookieSecret(), clock: time.Now}
	s.queries, s.cancel = context.WithCancel(context.Background())
	s.SetMaxInFlight(s.cfg.MaxInFlight, s.cfg.Shared)
	s.SetAccess(s.cfg.Access)
	s.spending = NewLimiter(spendRate, 32, 128)
	s.shares, s.errors = NewShares(), NewLimiter(errorsPerSecond, errorBits4, errorBits6)
	s.largest.Store(int64(s.cfg.UDPSize))
	s.threads = rawsock.NewThreads(s.cfg.Threads)
	s.conns = newConnTable(s.cfg.MaxTCP, s.cfg.MaxTCPPerClient)
	s.buffers.New = func() any {
		b := make([]byte, bufferSize)
		return &b
	}
	return s
}

// SetMaxInFlight replaces Config.MaxInFlight and Config.Shared. What is being handled stays, also beyond the bounds.
func (s *Server) SetMaxInFlight(n, shared int) {
	c := Config{MaxInFlight: n, Shared: shared}.withDefaults()
	s.places.Store(int64(c.MaxInFlight))
	s.shared.Store(int64(c.Shared))
}

// SetUDPSize replaces Config.UDPSize.
func (s *Server) SetUDPSize(octets int) {
	s.largest.Store(int64(Config{UDPSize: octets}.withDefaults().UDPSize))
}

// exchange is one received message on its way to a response.
type exchange struct {
	wire          []byte // as received; not changed, and not kept by the receiver
	client, local netip.AddrPort
	proto         Proto
	arrived       time.Time // zero: now
	tried         *UpstreamResult
}

// serve turns a message that accept let pass into the response to send, packed
// into buf or a larger buffer; nil: nothing is to be sent.
func (s *Server) serve(x exchange, buf []byte) []byte { return s.reply(x, buf, s.ask) }

// shed answers SERVFAIL without asking the Handler, on the goroutine that
// receives.
func (s *Server) shed(x exchange, buf []byte) []byte {
	return s.reply(x, buf, func(_ exchange, q *Query) (*dns.Msg, *atomic.Uint64) {
		q.failed = errShed
		return failure(q, dns.RcodeServerFailure, errShed), &s.counters.shed
	})
}

// answer makes the response to a query that may be answered, and says what to
// count it as.
type answer func(x exchange, q *Query) (*dns.Msg, *atomic.Uint64)

// reply never panics, whatever is in the message.
func (s *Server) reply(x exchange, buf []byte, with answer) (response []byte) {
	var q *Query
	defer func() {
		if p := recover(); p != nil {
			s.panicked(x, p)
			s.counters.failed.Add(1)
			response = s.internalError(x, q, buf)
		}
	}()
	q, e, rcode := parseQuery(x.wire, x.client, x.local, x.proto)
	if q == nil {
		s.counters.refused.Add(1)
		response = s.refuse(x, rcode)
		s.watch.Load().tell(x, response, ByServer, "")
		return response
	}
	q.Tried, q.cookie = x.tried, s.cookieOption(x, e)
	out, outcome := failure(q, rcode, why(rcode)), &s.counters.refused
	if rcode == dns.RcodeSuccess {
		out, outcome = with(x, q)
	}
	if out != nil {
		var err error
		if response, err = s.render(q, out, buf); err != nil {
			outcome = &s.counters.failed
			response, _ = s.render(q, failure(q, dns.RcodeServerFailure, err), buf)
		}
	}
	outcome.Add(1)
	by := ByHandler
	if outcome == &s.counters.refused || outcome == &s.counters.shed {
		by = ByServer
	}
	if outcome == &s.counters.refused && !s.mayRefuse(x) {
		response = nil
	}
	s.tell(x, q, response, by)
	return response
}

// ask has the Handler answer, whatever it does, and says what to count it as.
func (s *Server) ask(x exchange, q *Query) (out *dns.Msg, outcome *atomic.Uint64) {
	ctx, cancel := context.WithTimeout(s.queries, s.cfg.Timeout)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			s.panicked(x, p)
			q.failed = errInternal
			out, outcome = failure(q, dns.RcodeServerFailure, errInternal), &s.counters.failed
		}
	}()
	m, err := s.cfg.Handler.ServeDNS(ctx, q)
	q.failed = err
	switch {
	case err != nil:
		return failure(q, dns.RcodeServerFailure, err), &s.counters.failed
	case m == nil:
		return nil, &s.counters.silent
	}
	return complete(q, m), &s.counters.answered
}

// errShed is what a client is told of Config.MaxInFlight.
var errShed = &ExtendedError{Code: dns.ExtendedErrorCodeOther, Text: "too many queries wait for an answer"}

// errInternal is what a client is told of a panic. RFC 8914 has no code of its own for that.
var errInternal = &ExtendedError{Code: dns.ExtendedErrorCodeOther, Text: "internal error"}

// internalError is the response to a query whose own could not be made; q is nil where it could not even be parsed, and then
// there is nothing to say why with.
func (s *Server) internalError(x exchange, q *Query, buf []byte) (response []byte) {
	defer func() {
		if recover() != nil || response == nil {
			response = errorReply(x.wire, dns.RcodeServerFailure)
		}
	}()
	if q != nil {
		response, _ = s.render(q, failure(q, dns.RcodeServerFailure, errInternal), buf)
	}
	return response
}

// panicked is called with what recover returned.
func (s *Server) panicked(x exchange, p any) {
	s.panics.Caught(s.cfg.Log, "answering a query panicked", journal.QueryPanic, p,
		"client", x.client, "query", hex.EncodeToString(x.wire[:min(len(x.wire), 512)]))
}

// recovered is deferred where a panic is to end no more than what is done for one client, whose query is x where there is one.
func (s *Server) recovered(x exchange) {
	if p := recover(); p != nil {
		s.panicked(x, p)
	}
}

func (s *Server) render(q *Query, out *dns.Msg, buf []byte) ([]byte, error) {
	wire, truncated, err := pack(out, q.limit(int(s.largest.Load())), buf)
	if err == nil && truncated {
		s.counters.truncated.Add(1)
	}
	return wire, err
}
