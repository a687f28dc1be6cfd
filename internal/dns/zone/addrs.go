package zone

import (
	"hash/maphash"
	"net/netip"
	"slices"
)

// addrShards is the number of lists in an addrIndex. A change copies one list: 200 references for
// 100,000 endpoints.
const (
	addrShardBits = 9
	addrShards    = 1 << addrShardBits
)

// addrIndex maps addresses to their possible owners. It is a multimap: several Services may share
// an endpoint, and one Service may have it in two slices while they are rewritten. It stores hashes
// instead of addresses, so an endpoint takes eight bytes and no pointer. Hashes collide, so the
// caller compares the address of what it finds. Like a table, it is immutable.
type addrIndex struct {
	// shards hold sorted references: 32 bits of the address's hash, followed by the owner's number.
	shards [addrShards][]uint64
	seed   maphash.Seed // random, so that an attacker who chooses addresses cannot choose hashes
	names  names
}

// hash returns the shard of an address and its references, without an owner's number.
func (x *addrIndex) hash(addr netip.Addr) (shard int, ref uint64) {
	hash := maphash.Comparable(x.seed, addr.As16()) // IPv4 as IPv4-mapped
	return int(hash >> (64 - addrShardBits)), hash << 32
}

// at returns references to all owners of addr, and possibly to others. names has their keys. It
// does not allocate.
func (x *addrIndex) at(addr netip.Addr) []uint64 {
	at, ref := x.hash(addr)
	shard := x.shards[at]
	from, _ := slices.BinarySearch(shard, ref)
	to := from
	for to < len(shard) && shard[to]>>32 == ref>>32 {
		to++
	}
	return shard[from:to:to]
}

// addrBuilder builds successive addrIndexes. The zero value is empty.
type addrBuilder struct {
	addrIndex
	mine   [addrShards]bool // lists that no frozen index shares
	keys   namesBuilder     // by number
	frozen *addrIndex       // nil after a change
}

// add adds a reference. again reports whether an equal one already existed.
func (b *addrBuilder) add(addr netip.Addr, to uint32) (again bool) {
	shard, ref := b.own(addr, to)
	end, _ := slices.BinarySearch(*shard, ref+1) // after equal references, so that few are moved
	*shard = slices.Insert(*shard, end, ref)
	return end > 0 && (*shard)[end-1] == ref
}

// remove removes a reference, which must exist. again reports whether an equal one remains.
func (b *addrBuilder) remove(addr netip.Addr, to uint32) (again bool) {
	shard, ref := b.own(addr, to)
	end, _ := slices.BinarySearch(*shard, ref+1)
	*shard = slices.Delete(*shard, end-1, end)
	return end > 1 && (*shard)[end-2] == ref
}

// own returns a writable list for an address, and the reference.
func (b *addrBuilder) own(addr netip.Addr, to uint32) (*[]uint64, uint64) {
	b.begin()
	i, ref := b.hash(addr)
	if !b.mine[i] {
		b.shards[i] = slices.Clone(b.shards[i])
		b.mine[i] = true
	}
	return &b.shards[i], ref | uint64(to)
}

// begin must be called before a change.
func (b *addrBuilder) begin() {
	b.frozen = nil
	if b.seed == (maphash.Seed{}) {
		b.seed = maphash.MakeSeed()
	}
}

// number assigns a number to the owner with that key. It is never 0.
func (b *addrBuilder) number(key string) uint32 {
	b.begin()
	return b.keys.add(key)
}

// forget releases a number without references.
func (b *addrBuilder) forget(number uint32) {
	b.begin()
	b.keys.remove(number)
}

func (b *addrBuilder) freeze() *addrIndex {
	if b.frozen == nil {
		b.begin() // an empty index has a seed, too
		frozen := b.addrIndex
		frozen.names = b.keys.freeze()
		b.frozen = &frozen
		clear(b.mine[:])
	}
	return b.frozen
}
