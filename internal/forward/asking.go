package forward

import (
	"hash/maphash"
	"sync/atomic"
	"time"

	"github.com/node-dns/node-dns/internal/dnsserver"
)

// asking is a question that is being asked, all who wait for its response, and its socket. When nobody holds it any more
// it is used for another question.
type asking struct {
	query  []byte // as sent
	key    []byte
	hash   uint64
	table  *table
	route  *route
	server *server
	tag    uint64
	begun  time.Time
	socket socket

	isGuarded bool // the query has more to it than port and ID

	holds atomic.Int32 // by who sends, and by who waits for the response

	// Guarded by lane.mu.
	waiting     []*dnsserver.Later
	isAsked     bool // it is in a chain
	isSpoilt    bool // what is no response has come
	isUnread    bool // a response that cannot be read has come
	hasComeBack bool
	flight      *flight
	isWaitedFor bool // the lane is one of those who wait for the flight
	twin        *asking
	queued      queued
}

// chains are a power of two, and more than there are questions in flight as a rule.
const chains = 1 << 10

func (n *lane) chainOf(hash uint64) **asking { return &n.asked[hash%chains] }

func (n *lane) findLocked(hash uint64, key []byte) *asking {
	a := *n.chainOf(hash)
	for a != nil && (a.hash != hash || string(a.key) != string(key)) {
		a = a.twin
	}
	return a
}

func (n *lane) hash(key []byte) uint64 { return maphash.Bytes(n.seed, key) }

func (n *lane) beginLocked(a *asking) {
	a.isAsked, a.hasComeBack = true, false
	chain := n.chainOf(a.hash)
	a.twin, *chain = *chain, a
}

// take ends the question and returns who waits for it; false: it has ended already, or there is a flight, which ends it. Who gets
// true drops it when they have their answer.
func (n *lane) take(a *asking) (waiting []*dnsserver.Later, fl *flight, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if a.flight != nil {
		return nil, a.flight, false
	}
	waiting, ok = n.takeLocked(a)
	return waiting, nil, ok
}

// takeUnsent is take for a question that cannot be sent. A flight that others have begun goes on.
func (n *lane) takeUnsent(a *asking) (waiting []*dnsserver.Later, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if a.flight != nil {
		a.flight.report(outcome{attempt: attempt{to: a.server}, err: errUnsent})
		waiting, a.waiting = a.waiting, nil
		return waiting, false
	}
	return n.takeLocked(a)
}

func (n *lane) takeLocked(a *asking) (waiting []*dnsserver.Later, ok bool) {
	if !a.isAsked {
		return nil, false
	}
	a.isAsked = false
	n.unlinkLocked(a)
	n.dequeueLocked(a)
	n.f.flights.exit(a.route)
	return a.waiting, true
}

func (n *lane) unlinkLocked(a *asking) {
	link := n.chainOf(a.hash)
	for *link != a {
		link = &(*link).twin
	}
	*link, a.twin = a.twin, nil
}
