package inflight

import (
	"bytes"
	"net/netip"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// maxQuery is how long a query may be that is kept: a name, and an OPT record with a cookie, are 300 octets.
const maxQuery = 512

// place holds one query that was put aside. There are no Go pointers in it: those of an earlier process would be taken for
// ours by the garbage collector.
type place struct {
	length  uint32 // of the query; not 0 while the place is taken: it is set last
	asked   uint32 // how often a process has taken the query over
	arrived int64  // CLOCK_BOOTTIME in nanoseconds
	client  unix.RawSockaddrInet6
	local   endpoint
	query   [maxQuery]byte
}

// fill takes over message i of a batch. One of which an earlier process could not say when it came has come now.
func (p *place) fill(b *batch, i int) {
	n := min(int(b.messages[i].length), maxQuery)
	p.asked, p.arrived = 0, b.arrived
	if p.arrived == 0 {
		p.arrived = newClock().now()
	}
	p.client, p.local = b.clients[i], b.local
	copy(p.query[:n], b.queries[i][:n])
	atomic.StoreUint32(&p.length, uint32(n))
}

func (p *place) isTaken() bool { return atomic.LoadUint32(&p.length) != 0 }

func (p *place) clear() { atomic.StoreUint32(&p.length, 0) }

func (p *place) wire() []byte { return p.query[:min(p.length, maxQuery)] }

// endpoint is an address that a socket is bound to. Unused octets are 0.
type endpoint struct {
	addr [16]byte
	zone [unix.IFNAMSIZ]byte
	port uint16
	is4  uint16 // 1 or 0: whatever stands in memory is no bool
}

func newEndpoint(a netip.AddrPort) (e endpoint) {
	e.addr, e.port = a.Addr().As16(), a.Port()
	if a.Addr().Is4() {
		e.is4 = 1
	}
	copy(e.zone[:], a.Addr().Zone())
	return e
}

func (e endpoint) addrPort() netip.AddrPort {
	addr := netip.AddrFrom16(e.addr)
	if e.is4 == 1 {
		addr = addr.Unmap()
	}
	zone, _, _ := bytes.Cut(e.zone[:], []byte{0})
	return netip.AddrPortFrom(addr.WithZone(string(zone)), e.port)
}
