package dnsserver

import (
	"log/slog"
	"net/netip"
	"time"

	"github.com/miekg/dns"
)

// Config configures a Server. Handler is required.
type Config struct {
	Handler Handler
	Wire    WireFunc     // called before the Handler; nil disables the fast path
	Miss    MissFunc     // handles UDP queries that Wire could not answer; nil: the Handler does
	Log     *slog.Logger // nil disables logging
	// Trouble is called for queries that took SlowAfter or longer or that failed, except those
	// answered by Wire or by the server itself. Like any Watch, it must not block. nil disables it.
	Trouble Watch
	// Failed is called for each SERVFAIL and REFUSED response, except those to clients that may not
	// send queries. Like any Watch, it must not block. nil disables it.
	Failed Watch
	Access *Access // nil allows every client and disables the limit on error responses

	Sockets Sockets // sockets that outlive the server; nil: it opens and closes all itself

	// UDPSockets is the number of sockets per address, each with its own receiver, if there are few
	// addresses. It should be the number of CPUs that answer queries. 0 means 1.
	UDPSockets int
	// Threads is the number of receivers that may block in the kernel while they are busy. Go's
	// scheduler counts them as running, so GOMAXPROCS must be larger by this number. 0 means that
	// no receiver blocks, whatever that costs.
	Threads int

	// MaxInFlight is the maximum number of queries being handled at once, over all sockets. A query
	// above the limit gets SERVFAIL if no slot becomes free soon and Wire has no answer. 0 means
	// 10000, the dns-forward-max of OpenShift nodes.
	MaxInFlight int
	// Shared is the number of these slots that clients share. A client may hold as many slots as
	// are still free, so one client alone gets at most half, two get a third each, and the next
	// client always finds a slot. Every client may always hold a few. 0 means MaxInFlight.
	Shared int
	// UDPSize is the maximum size of a UDP response in bytes, regardless of the size that a client
	// offers (edns-packet-max in dnsmasq). 0 means 1232; values below 512 mean 512.
	UDPSize int
	// Timeout is the maximum time for a Handler; its context ends then. 0 means 5 s, the default
	// timeout of stub resolvers (resolv.conf(5), timeout).
	Timeout time.Duration

	// MaxTCP limits the connections, and MaxTCPPerClient those of one address. At a limit the
	// server closes the connection that has been idle longest, or rejects the new one if none is
	// idle. 0 means 1000 and 64.
	MaxTCP, MaxTCPPerClient int
	// MaxPipelined is the maximum number of unanswered queries on one connection. The server reads
	// no more queries until one is answered. 0 means 16.
	MaxPipelined int
	// FirstQuery is the time that a new connection has to send its first query, and the time that a
	// query may take to arrive completely. 0 means 2 s.
	FirstQuery time.Duration
	// Idle is the time that a connection with nothing to answer stays open after the last response
	// (RFC 7766 section 6.2.3). 0 means 5 s.
	Idle time.Duration
	// Write is the time that a client may take to accept one response. 0 means 2 s.
	Write time.Duration
}

func (c Config) withDefaults() Config {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Sockets == nil {
		c.Sockets = noSockets{}
	}
	number(&c.UDPSockets, 1)
	number(&c.MaxInFlight, 10000)
	number(&c.Shared, c.MaxInFlight)
	number(&c.UDPSize, udpSize)
	c.UDPSize = max(c.UDPSize, dns.MinMsgSize)
	number(&c.MaxTCP, 1000)
	number(&c.MaxTCPPerClient, 64)
	number(&c.MaxPipelined, 16)
	number(&c.Timeout, 5*time.Second)
	number(&c.FirstQuery, 2*time.Second)
	number(&c.Idle, 5*time.Second)
	number(&c.Write, 2*time.Second)
	return c
}

func number[T int | time.Duration](field *T, zero T) {
	if *field == 0 {
		*field = zero
	}
}

// SetMaxInFlight replaces Config.MaxInFlight and Config.Shared. Queries in flight stay, even beyond
// the limits.
func (s *Server) SetMaxInFlight(n, shared int) {
	c := Config{MaxInFlight: n, Shared: shared}.withDefaults()
	s.places.Store(int64(c.MaxInFlight))
	s.shared.Store(int64(c.Shared))
}

// SetUDPSize replaces Config.UDPSize.
func (s *Server) SetUDPSize(octets int) {
	s.largest.Store(int64(Config{UDPSize: octets}.withDefaults().UDPSize))
}

// SetAccess replaces Config.Access. nil allows every client and disables the limit on error
// responses.
func (s *Server) SetAccess(a *Access) {
	if a != nil && a.Rate > 0 {
		limited := *a
		if old := s.access.Load(); old != nil && old.Rate == a.Rate {
			limited.limiter = old.limiter
		} else {
			limited.limiter = NewLimiter(a.Rate, 32, 128)
		}
		a = &limited
	}
	s.access.Store(a)
}

// SetWatch replaces the Watch. nil disables watching, which costs one load per batch. hits is the
// approximate maximum of fast-path answers per second that each receiver reports; 0 means all.
func (s *Server) SetWatch(w Watch, hits int) {
	if w == nil {
		s.watch.Store(nil)
		return
	}
	s.watch.Store(&watching{w, hits})
}

// Charge charges a client for an upstream message of that many bytes, and so for the time to parse
// it. A client that has used up its share gets only answers from the cache and the cluster zone for
// a while. This host has no limit.
func (s *Server) Charge(client netip.Addr, octets int) {
	if octets > spendFree {
		s.spending.Charge(client, octets-spendFree)
	}
}

// SetTerms sets the terms for the next Listen. They apply to the given addresses, and the other
// addresses are Alone. Without addresses they apply to all. Gone always applies to all.
func (s *Server) SetTerms(terms Terms, at ...netip.AddrPort) {
	s.changing.Lock()
	defer s.changing.Unlock()
	s.terms, s.termsAt = terms, at
}

// IsOwn reports whether a name, as received, is that of a query that this process has sent to
// another nameserver and that came back. It is called from receiving goroutines, so it must not
// block for long.
type IsOwn func(name []byte) bool

// SetOwn sets the function that recognizes our own queries. The server answers them with NXDOMAIN
// before it looks at the client. They are not counted, reported or limited. nil means that no such
// query is in flight, which costs one load per batch.
func (s *Server) SetOwn(isOwn IsOwn) {
	if isOwn == nil {
		s.comesBack.Store(nil)
		return
	}
	s.comesBack.Store(&isOwn)
}

// answerOwn returns the response to a message that accept let through if it is one of our own
// queries, and nil otherwise.
func (f *IsOwn) answerOwn(wire []byte) []byte {
	if f == nil || !(*f)(wire[headerSize:questionEnd(wire)-4]) {
		return nil
	}
	return errorReply(wire, dns.RcodeNameError)
}
