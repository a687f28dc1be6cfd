package dnsserver

import (
	"log/slog"
	"time"

	"github.com/miekg/dns"
)

// Config says how to serve. Handler is required.
type Config struct {
	Handler Handler
	Wire    WireFunc     // asked before the Handler; nil: nobody is
	Miss    MissFunc     // takes over what Wire has no answer to, over UDP; nil: the Handler answers
	Log     *slog.Logger // nil: nothing is logged
	// Trouble is told of queries that took SlowAfter or longer, or failed, unless Wire or the server itself has answered. It is called
	// as a Watch is. Nil: nobody wants to know.
	Trouble Watch
	Access  *Access // nil: everyone may ask, and no response that says no is withheld

	Sockets Sockets // nil: those that the server opens itself, and closes

	// UDPSockets is how many sockets an address gets, each with a receiver of its own, where there are few addresses: as
	// many as there are processors to answer. 0 means 1.
	UDPSockets int
	// Threads is how many receivers may wait in the kernel while they are busy, which Go's scheduler takes for running:
	// GOMAXPROCS must be as many more. 0 means none, whatever it costs.
	Threads int

	// MaxInFlight bounds the queries being handled at once, over all sockets;
	// one more is answered SERVFAIL when none of them ends soon, unless Wire has an answer. 0 means 10000, as dns-forward-max on
	// OpenShift nodes.
	MaxInFlight int
	// Shared is how many of these places are shared out: a client gets as many as are free of them, so that one alone has half
	// at most, two a third each, and whoever comes last finds one. A few it may always have. 0 means MaxInFlight.
	Shared int
	// UDPSize bounds a response over UDP, in octets, whatever a client offers
	// (dnsmasq's edns-packet-max). 0 means 1232; less than 512 means 512.
	UDPSize int
	// Timeout is how long a Handler may take; its context ends then. 0 means 5 s,
	// after which a stub resolver has given up (resolv.conf(5), timeout).
	Timeout time.Duration

	// MaxTCP bounds the connections, MaxTCPPerClient those of one address: at
	// the bound the one that has been idle longest is closed, or else the new
	// one. 0 means 1000 and 64.
	MaxTCP, MaxTCPPerClient int
	// MaxPipelined bounds the unanswered queries on one connection; further ones
	// are not read until one is answered. 0 means 16.
	MaxPipelined int
	// FirstQuery is how long a new connection may be silent, and how long a
	// query may take to arrive once it began. 0 means 2 s.
	FirstQuery time.Duration
	// Idle is how long a connection with nothing to answer is kept after the
	// last response (RFC 7766 section 6.2.3). 0 means 5 s.
	Idle time.Duration
	// Write is how long a client may take to accept one response. 0 means 2 s.
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
