package inflight

import (
	"net/netip"
	"time"

	"github.com/node-dns/node-dns/internal/sys/sockaddr"
)

const (
	// patience is how long a client waits (resolv.conf(5), timeout): nobody takes an older answer.
	patience = 5 * time.Second
	// maxAsked is how often a query is taken over. One that is there each time the process dies may be what it dies of.
	maxAsked = 8
)

// Left is a query that an earlier process has not answered.
type Left struct {
	Held
	Wire          []byte // valid until Done
	Client, Local netip.AddrPort
}

// Left returns the queries that earlier processes have not answered and that came in where isBound is true, each of them once;
// nil: wherever they did. They stay in the Log until they are Done. What nobody waits for any more is dropped. It is called
// from one goroutine at a time.
func (l *Log) Left(isBound func(netip.AddrPort) bool) []Left {
	if l == nil {
		return nil
	}
	var all []Left
	var later []*place
	now := newClock().now()
	for _, p := range l.left {
		q := Left{Held{l, p}, p.wire(), sockaddr.AddrPort(&p.client), p.local.addrPort()}
		age := time.Duration(now - p.arrived)
		if p.length > maxQuery || !q.Client.IsValid() || age < 0 || age >= patience || p.asked >= maxAsked {
			q.Done()
			continue
		}
		if isBound != nil && !isBound(q.Local) {
			later = append(later, p)
			continue
		}
		p.asked++
		all = append(all, q)
	}
	l.left = later
	return all
}

// Leave says that the process ends in order: it does not die of what is left. Nothing is received any more.
func (l *Log) Leave() {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.header.used {
		l.at(i).asked = 0
	}
}
