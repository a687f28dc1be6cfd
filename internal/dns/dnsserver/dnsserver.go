// Package dnsserver is the nameserver's sockets: it receives queries over UDP
// and TCP, refuses what no nameserver should answer, hands the rest to a
// Handler, and sends the response back whole, or truncated to what the client
// can take.
//
// It is apart from forward, cache and zone because they decide what the answer
// is, and never see a socket, a message ID or a client's buffer size. It does
// not use miekg/dns's own server: that binds once, answers from whichever
// address the routing table likes, and cannot shed.
package dnsserver

import (
	"context"
	"net/netip"
	"time"

	"github.com/miekg/dns"
	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
)

// Proto is how a query came in.
type Proto string

// The transports of DNS, RFC 1035 section 4.2.
const (
	UDP Proto = "udp"
	TCP Proto = "tcp"
)

// Query is one question of one client. A Query belongs to the goroutine that
// serves it; handlers may set AnsweredBy, Origin, Cached, Stale and Age, and nothing else.
type Query struct {
	// Msg is what the message asks, never nil, read-only: its header, exactly one
	// question, of class IN, or CH, which must not be forwarded, and at most one OPT
	// record, of version 0 and without options. It may be kept after the response.
	Msg *dns.Msg
	// Name is the qname. It is zero when the qname has octets that
	// dnsname.Parse refuses; Msg.Question[0].Name always has it.
	Name dnsname.Name
	// Client is where the response goes, Local where the query arrived.
	Client, Local netip.AddrPort
	Proto         Proto
	// Inquiry is of an admin's question; nil: it is a client's. It is set before the Handler sees the query, and of the queries that
	// this one leads to.
	Inquiry *Inquiry
	// Tried is what came of asking the upstream nameservers already; nil: none was asked.
	Tried *UpstreamResult
	// AnsweredBy is the upstream nameserver that the answer came from, set by
	// who asked it; zero for an answer of our own.
	AnsweredBy nameserver.Server
	// Origin is who made an answer that is no upstream nameserver's; "" where nobody says.
	Origin Origin
	// Cached says that the answer was remembered, Age for how long, and Stale that it has expired.
	Cached, Stale bool
	Age           time.Duration

	cookie *dns.EDNS0_COOKIE // for the response; nil: none
	failed error             // why there is no answer; nil: there is
	faulty bool              // Direct found a fault in it, and asked nobody
}

// Origin is who makes answers without asking anybody.
type Origin string

// The origins of answers.
const (
	OriginCluster   Origin = "cluster"    // the built-in resolver, from what the Kubernetes API said
	OriginLocalData Origin = "local data" // hosts files, and records of dnsmasq's files
	OriginLocalhost Origin = "localhost"  // RFC 6761 section 6.3
	OriginSelf      Origin = "itself"     // class CHAOS, our own loop probes, and questions that are never forwarded
	OriginRule      Origin = "rule"       // names and types that are kept from the upstreams, as domainNeeded has it
)

// Handler answers queries. It is called from many goroutines at once, and must
// return when ctx ends, which is at Config.Timeout after the query arrived, or
// when the server stops.
//
// The message needs no more than Rcode and sections: ID, flags, question and
// the OPT record are set by the server, from which only AA, TC, AD and the
// Extended DNS Errors of an OPT record are taken over. The message is not
// changed, and not used after it is sent. An error becomes SERVFAIL, with the
// Extended DNS Error when it is, or wraps, an *ExtendedError. A nil message with
// a nil error sends nothing.
type Handler interface {
	ServeDNS(ctx context.Context, q *Query) (*dns.Msg, error)
}

// HandlerFunc is a Handler that is a function.
type HandlerFunc func(ctx context.Context, q *Query) (*dns.Msg, error)

var _ Handler = HandlerFunc(nil)

// ServeDNS calls f.
func (f HandlerFunc) ServeDNS(ctx context.Context, q *Query) (*dns.Msg, error) { return f(ctx, q) }

// UpstreamResult is what came of asking the upstream nameservers before the Handler is asked: Msg, in which there is more than Send could
// say, or Err, or nothing yet, after some time.
type UpstreamResult struct {
	Server nameserver.Server // that Msg is from
	Msg    *dns.Msg
	Err    error
}

// IsLate reports whether the query has been waiting for an answer.
func (t *UpstreamResult) IsLate() bool { return t != nil && t.Msg == nil && t.Err == nil }
