package dnsserver

import (
	"net/netip"
	"sync"
)

// connTable holds the open connections and enforces their limits.
type connTable struct {
	max, maxPerClient int

	mu       sync.Mutex // guards the fields below
	conns    map[*tcpConn]struct{}
	byClient map[netip.Addr]int
}

func newConnTable(max, maxPerClient int) *connTable {
	return &connTable{
		max: max, maxPerClient: maxPerClient,
		conns: map[*tcpConn]struct{}{}, byClient: map[netip.Addr]int{},
	}
}

// add adds a connection. At a limit it evicts the connection that has been idle longest or whose
// client does not read. If the client's own limit is reached, only that client's connections are
// candidates. If there is none to evict, the new connection is rejected.
func (t *connTable) add(c *tcpConn, counters *counters) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	client := c.owner
	var victim *tcpConn
	switch {
	case t.byClient[client] >= t.maxPerClient:
		victim = t.longestIdleLocked(func(o *tcpConn) bool { return o.owner == client })
	case len(t.conns) >= t.max:
		victim = t.longestIdleLocked(func(*tcpConn) bool { return true })
	default:
		t.addLocked(c)
		return true
	}
	if victim == nil {
		return false
	}
	counters.tcpEvicted.Add(1)
	t.removeLocked(victim)
	victim.evict()
	t.addLocked(c)
	return true
}

func (t *connTable) longestIdleLocked(of func(*tcpConn) bool) *tcpConn {
	var longest *tcpConn
	for c := range t.conns {
		if of(c) && c.mayGo() && (longest == nil || c.active.Load() < longest.active.Load()) {
			longest = c
		}
	}
	return longest
}

func (t *connTable) addLocked(c *tcpConn) {
	t.conns[c] = struct{}{}
	t.byClient[c.owner]++
}

// remove does nothing if c is not in the table.
func (t *connTable) remove(c *tcpConn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.removeLocked(c)
}

func (t *connTable) removeLocked(c *tcpConn) {
	if _, ok := t.conns[c]; !ok {
		return
	}
	delete(t.conns, c)
	client := c.owner
	if t.byClient[client]--; t.byClient[client] == 0 {
		delete(t.byClient, client)
	}
}
