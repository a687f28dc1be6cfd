package zone

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"slices"
	"strings"
)

// addrShards is how many lists an addrIndex has: a change copies one, 200 references for 100,000 endpoints.
const (
	addrShardBits = 9
	addrShards    = 1 << addrShardBits
)

// addrIndex says who has an address: a multimap, because several Services may have an endpoint, and one Service may
// have it in two slices while they are rewritten. Each list is sorted. It is immutable, as a table is.
type addrIndex struct{ shards [addrShards][]addrRef }

type addrRef struct {
	addr [16]byte // IPv4 as IPv4-mapped
	to   string
}

func (r addrRef) compare(other addrRef) int {
	if c := bytes.Compare(r.addr[:], other.addr[:]); c != 0 {
		return c
	}
	return strings.Compare(r.to, other.to)
}

// addrShard multiplies by 2^64/phi, so that the first bits of the product depend on all octets.
func addrShard(addr *[16]byte) uint {
	const phi = 0x9e3779b97f4a7c15
	mixed := binary.LittleEndian.Uint64(addr[:8])*phi ^ binary.LittleEndian.Uint64(addr[8:])
	return uint(mixed * phi >> (64 - addrShardBits))
}

// at returns the references of addr, sorted; the caller does not change them. It does not allocate.
func (x *addrIndex) at(addr netip.Addr) []addrRef {
	ref := addrRef{addr: addr.As16()}
	shard := x.shards[addrShard(&ref.addr)]
	from, _ := slices.BinarySearchFunc(shard, ref, addrRef.compare)
	to := from
	for to < len(shard) && shard[to].addr == ref.addr {
		to++
	}
	return shard[from:to:to]
}

// addrBuilder makes addrIndexes one after the other. Its zero value is empty.
type addrBuilder struct {
	addrIndex
	mine   [addrShards]bool // lists that no frozen index has
	frozen *addrIndex       // nil: there was a change since
}

// add puts in one reference more. again says that there was the same one already.
func (b *addrBuilder) add(addr netip.Addr, to string) (again bool) {
	ref := addrRef{addr.As16(), to}
	shard := b.own(ref)
	i, again := slices.BinarySearchFunc(*shard, ref, addrRef.compare)
	*shard = slices.Insert(*shard, i, ref)
	return again
}

// remove takes out one reference, which is there. again says that the same one is left.
func (b *addrBuilder) remove(addr netip.Addr, to string) (again bool) {
	ref := addrRef{addr.As16(), to}
	shard := b.own(ref)
	i, _ := slices.BinarySearchFunc(*shard, ref, addrRef.compare)
	*shard = slices.Delete(*shard, i, i+1)
	return i < len(*shard) && (*shard)[i] == ref
}

func (b *addrBuilder) own(ref addrRef) *[]addrRef {
	i := addrShard(&ref.addr)
	b.frozen = nil
	if !b.mine[i] {
		b.shards[i] = slices.Clone(b.shards[i])
		b.mine[i] = true
	}
	return &b.shards[i]
}

func (b *addrBuilder) freeze() *addrIndex {
	if b.frozen == nil {
		frozen := b.addrIndex
		b.frozen = &frozen
		clear(b.mine[:])
	}
	return b.frozen
}
