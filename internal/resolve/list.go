package resolve

import (
	"context"
	"net/netip"

	"github.com/miekg/dns"
	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/dns/dnswire"
)

// handler is one row of the list. Its functions are called concurrently.
type handler struct {
	name string
	// handle answers q under s, or returns what next says.
	handle func(ctx context.Context, s *state, q *dnsserver.Query, next rest) (*dns.Msg, error)
	// fast says what handle would do with a query that was not parsed. Nil: handle has the rest of the list answer, and what it
	// changes is seen to there.
	fast func(r *Resolver, s *state, w *walk) verdict
	// goesOn reports whether handle would not leave it at an NXDOMAIN for that client. Nil: it would.
	goesOn func(r *Resolver, s *state, client netip.Addr) bool
}

// rest is the list from one handler on, under one state. It is a dnsserver.Handler.
type rest struct {
	r       *Resolver
	s       *state
	from    int
	foreign bool // the zone has said that the name is not the cluster's
}

var _ dnsserver.Handler = rest{}

// answer has the rest of the list answer q.
func (n rest) answer(ctx context.Context, q *dnsserver.Query) (*dns.Msg, error) {
	here := n.from
	n.from++
	return n.r.order[here].handle(ctx, n.s, q, n)
}

// ServeDNS implements dnsserver.Handler.
func (n rest) ServeDNS(ctx context.Context, q *dnsserver.Query) (*dns.Msg, error) {
	return n.answer(ctx, q)
}

// verdict is what a handler says to a query that was not parsed.
type verdict int

const (
	pass     verdict = iota // it has no say in the answer
	stop                    // it may have one: ServeDNS answers
	answered                // walk.response is the answer, or the upstreams are the ones to ask
)

func stopIf(mayHaveSay bool) verdict {
	if mayHaveSay {
		return stop
	}
	return pass
}

// walk is the way of one query, which was not parsed, through the list.
type walk struct {
	q        *dnsserver.WireQuery
	question []byte // its AppendKey
	name     []byte // its name, as the text of a dnsname.Name; nil if it has octets that no dnsname.Name has
	isOfZone bool   // the name is in one of the cluster's zones, or may be
	response []byte // the answer is appended to it, unless isMiss

	isMiss bool                    // nothing is remembered: upstreams are to be asked
	later  *dnsserver.PendingQuery // what they answer goes there; nil: they are not asked

	roomForQuestion [dnswire.MaxQuestion]byte
	roomForName     [dnswire.MaxName]byte
	roomForQuery    dnsserver.WireQuery
}
