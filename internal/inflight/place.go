package inflight

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"strconv"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// maxQuery is how long a query may be that is kept: a name, and an OPT record with a cookie, are 300 octets.
const maxQuery = 512

// place holds one query: what recvmmsg(2) writes, and what it needs for that. There are no Go pointers in it: those of
// an earlier process would be taken for ours by the garbage collector.
type place struct {
	message message
	iov     [2]iovec
	client  unix.RawSockaddrInet6 // large enough for IPv4 too
	local   endpoint
	asked   uint32 // how often a process has taken the query over
	arrived int64  // CLOCK_BOOTTIME in nanoseconds
	query   [maxQuery]byte
}

// message is struct mmsghdr of recvmmsg(2), where a long has 64 bits. length is not 0 while the place is taken: the kernel
// sets it last.
type message struct {
	name       uintptr
	nameLength uint32
	_          uint32
	iov        uintptr
	iovLength  uintptr
	control    uintptr
	controlLen uintptr
	flags      int32
	_          uint32
	length     uint32
	_          uint32
}

// iovec is struct iovec of readv(2).
type iovec struct{ base, length uintptr }

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

func (p *place) isTaken() bool { return atomic.LoadUint32(&p.message.length) != 0 }

func (p *place) clear() { atomic.StoreUint32(&p.message.length, 0) }

// prepare readies the place for recvmmsg. What does not fit it goes to rest.
func (p *place) prepare(rest []byte) {
	p.clear()
	p.iov = [2]iovec{
		{uintptr(unsafe.Pointer(&p.query)), maxQuery},
		{uintptr(unsafe.Pointer(unsafe.SliceData(rest))), uintptr(len(rest))},
	}
	p.message.name, p.message.nameLength = uintptr(unsafe.Pointer(&p.client)), uint32(unsafe.Sizeof(p.client))
	p.message.iov, p.message.iovLength = uintptr(unsafe.Pointer(&p.iov)), uintptr(len(p.iov))
	p.message.control, p.message.controlLen, p.message.flags = 0, 0, 0
	p.client.Family, p.asked = 0, 0
	p.query[maxQuery-1] = 0 // has the last page there: the kernel drops what it cannot copy because SIGKILL interrupts a page fault
}

// wire is the query as far as it is in the place.
func (p *place) wire() []byte { return p.query[:min(p.message.length, maxQuery)] }

// from is the client; not valid when the kernel named none.
func (p *place) from() netip.AddrPort {
	port := binary.BigEndian.Uint16((*[2]byte)(unsafe.Pointer(&p.client.Port))[:])
	switch p.client.Family {
	case unix.AF_INET:
		v4 := (*unix.RawSockaddrInet4)(unsafe.Pointer(&p.client))
		return netip.AddrPortFrom(netip.AddrFrom4(v4.Addr), port)
	case unix.AF_INET6:
		addr := netip.AddrFrom16(p.client.Addr).Unmap()
		if p.client.Scope_id != 0 {
			addr = addr.WithZone(strconv.FormatUint(uint64(p.client.Scope_id), 10))
		}
		return netip.AddrPortFrom(addr, port)
	}
	return netip.AddrPort{}
}
