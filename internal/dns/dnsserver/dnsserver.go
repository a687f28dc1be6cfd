// Package dnsserver serves DNS over UDP and TCP sockets. It receives queries, refuses those that no
// nameserver should answer, passes the rest to a Handler, and sends the response, truncated if the
// client cannot take it whole.
//
// The packages forward, cache and zone decide what the answer is, and never see a socket, a message
// ID or a client's buffer size. Package dnsserver does not use the server of miekg/dns, which binds
// only once, answers from whichever address the routing table selects, and cannot shed load.
package dnsserver

import (
	"context"
	"net/netip"
	"time"

	"github.com/miekg/dns"
	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
)

// Proto is the transport of a query.
type Proto string

// The transports of DNS, RFC 1035 section 4.2.
const (
	UDP Proto = "udp"
	TCP Proto = "tcp"
)

// Query is one question of one client. A Query belongs to the goroutine that serves it. Handlers
// may set AnsweredBy, Origin, Cached, Stale and Age, and nothing else.
type Query struct {
	// Msg is the client's query, never nil and read-only. It has a header, exactly one question of
	// class IN or CH, and at most one OPT record, of version 0 and without options. CH must not be
	// forwarded. Handlers may keep Msg after the response.
	Msg *dns.Msg
	// Name is the qname. It is zero if the qname has bytes that dnsname.Parse rejects;
	// Msg.Question[0].Name always has it.
	Name dnsname.Name
	// Client is the address that the response goes to, Local the address that the query arrived at.
	Client, Local netip.AddrPort
	Proto         Proto
	// Inquiry holds the options of an administrator's query; nil for a client's query. It is set
	// before the Handler sees the query, and copied to the queries that this one leads to.
	Inquiry *Inquiry
	// Tried is the result of querying the upstream nameservers before the Handler; nil if none was
	// asked.
	Tried *UpstreamResult
	// AnsweredBy is the upstream nameserver that the answer came from, set by the code that queried
	// it. It is zero if no upstream answered.
	AnsweredBy nameserver.Server
	// Origin is the source of an answer that is not from an upstream nameserver; "" if unknown.
	Origin Origin
	// Cached is set if the answer came from the cache, Stale if it has expired. Age is the time
	// since it was cached.
	Cached, Stale bool
	Age           time.Duration

	cookie *dns.EDNS0_COOKIE // for the response; nil if there is none
	failed error             // why there is no answer; nil if there is one
	faulty bool              // Direct rejected the query without calling the Handler
}

// Origin is a source of answers other than the upstream nameservers.
type Origin string

// The sources of local answers.
const (
	OriginCluster   Origin = "cluster"    // the built-in cluster resolver, from the Kubernetes API
	OriginLocalData Origin = "local data" // hosts files and records from dnsmasq files
	OriginLocalhost Origin = "localhost"  // RFC 6761 section 6.3
	OriginSelf      Origin = "itself"     // class CHAOS, queries never forwarded
	OriginRule      Origin = "rule"       // names and types not sent upstream, e.g. with domainNeeded
)

// Handler answers queries. It is called from many goroutines at once. It must return when ctx ends,
// which is Config.Timeout after the query arrived, or when the server stops.
//
// The message needs only Rcode and sections. The server sets the ID, the flags, the question and
// the OPT record; it copies AA, TC, AD and the Extended DNS Errors from the message. The server
// does not change the message, and does not use it after sending. An error becomes SERVFAIL, with
// the Extended DNS Error if it is or wraps an *ExtendedError. A nil message with a nil error sends
// no response.
type Handler interface {
	ServeDNS(ctx context.Context, q *Query) (*dns.Msg, error)
}

// HandlerFunc is a function that implements Handler.
type HandlerFunc func(ctx context.Context, q *Query) (*dns.Msg, error)

var _ Handler = HandlerFunc(nil)

// ServeDNS calls f.
func (f HandlerFunc) ServeDNS(ctx context.Context, q *Query) (*dns.Msg, error) { return f(ctx, q) }

// UpstreamResult is the result of querying the upstream nameservers before the Handler is called.
// It has a Msg that needs more processing than PendingQuery.Send does, or an Err. With neither, the
// answer is still outstanding after some time.
type UpstreamResult struct {
	Server nameserver.Server // nameserver that sent Msg
	Msg    *dns.Msg
	Err    error
	Tag    uint64 // that of the first query with this question; 0 if it came through the Handler
}

// IsAnswer reports whether the nameserver answered the question, if only with NXDOMAIN.
func (t *UpstreamResult) IsAnswer() bool {
	return t != nil && t.Msg != nil && (t.Msg.Rcode == dns.RcodeSuccess || t.Msg.Rcode == dns.RcodeNameError)
}

// IsLate reports whether the query is still waiting for an answer.
func (t *UpstreamResult) IsLate() bool { return t != nil && t.Msg == nil && t.Err == nil }
