package dnsserver

import (
	"log/slog"
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
	// client always finds a slot. Every client may hold a few in any case. 0 means MaxInFlight.
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
