package dnsserver

import (
	"crypto/rand"
	"encoding/binary"
	"math/bits"
	"net/netip"
)

// rowSize is the number of cells in one row. Two rows of 64-bit cells take 64 KiB.
const (
	rowBits = 12
	rowSize = 1 << rowBits
)

// hasher maps each client to two cells, one in each of two rows, with a secret key, so that no
// client can choose an address that shares both cells with another. The count of a client is the
// smaller of the two, as in a count-min sketch (Cormode and Muthukrishnan, 2005). A client that
// shares one cell with a busy one is therefore not affected.
type hasher struct {
	bits4, bits6 int // prefix lengths that identify a client
	secret       [2]uint64
}

func newHasher(bits4, bits6 int) hasher {
	var random [16]byte
	rand.Read(random[:]) // never fails, see crypto/rand
	return hasher{bits4, bits6, [2]uint64{binary.NativeEndian.Uint64(random[:]), binary.NativeEndian.Uint64(random[8:])}}
}

func (h *hasher) cells(a netip.Addr) (first, second int) {
	n := number6(a)
	keep := h.bits6
	if a.Is4() || a.Is4In6() {
		keep = h.bits4 + 96
	}
	if keep <= 64 {
		n.high, n.low = n.high&^(^uint64(0)>>keep), 0
	} else {
		n.low &^= ^uint64(0) >> (keep - 64)
	}
	high, low := bits.Mul64(n.high^h.secret[0], n.low^h.secret[1])
	high, low = bits.Mul64(high^low^h.secret[1], h.secret[0]|1)
	mixed := high ^ low
	return int(mixed % rowSize), int(mixed >> rowBits % rowSize)
}
