package zone

import (
	"hash/maphash"
	"net/netip"
	"slices"
)

// addrShards is how many lists an addrIndex has: a change copies one, 200 references for 100,000 endpoints.
const (
	addrShardBits = 9
	addrShards    = 1 << addrShardBits
)

// addrIndex says who may have an address: a multimap, because several Services may have an endpoint, and one Service may
// have it in two slices while they are rewritten. It stores hashes of addresses, not addresses: an endpoint takes eight
// octets and no pointer. Hashes collide, so the caller compares the address of what it finds. It is immutable, as a table is.
type addrIndex struct {
	// shards hold sorted references: 32 bits of the address's hash, then the owner's number.
	shards [addrShards][]uint64
	seed   maphash.Seed // random: who chooses addresses cannot choose their hashes
	names  names
}

// hash returns the shard of an address, and its references without a number.
func (x *addrIndex) hash(addr netip.Addr) (shard int, ref uint64) {
	hash := maphash.Comparable(x.seed, addr.As16()) // IPv4 as IPv4-mapped
	return int(hash >> (64 - addrShardBits)), hash << 32
}

// at returns references to all owners of addr, and perhaps to others. names has their keys. It does not allocate.
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

// addrBuilder makes addrIndexes one after the other. Its zero value is empty.
type addrBuilder struct {
	addrIndex
	mine   [addrShards]bool // lists that no frozen index has
	keys   namesBuilder     // of numbers
	frozen *addrIndex       // nil: there was a change since
}

// add puts in one reference more. again says that there was the same one already.
func (b *addrBuilder) add(addr netip.Addr, to uint32) (again bool) {
	shard, ref := b.own(addr, to)
	end, _ := slices.BinarySearch(*shard, ref+1) // after equal references, so that few are moved
	*shard = slices.Insert(*shard, end, ref)
	return end > 0 && (*shard)[end-1] == ref
}

// remove takes out one reference, which is there. again says that the same one is left.
func (b *addrBuilder) remove(addr netip.Addr, to uint32) (again bool) {
	shard, ref := b.own(addr, to)
	end, _ := slices.BinarySearch(*shard, ref+1)
	*shard = slices.Delete(*shard, end-1, end)
	return end > 1 && (*shard)[end-2] == ref
}

// own returns the list of an address for writing, and the reference.
func (b *addrBuilder) own(addr netip.Addr, to uint32) (*[]uint64, uint64) {
	b.begin()
	i, ref := b.hash(addr)
	if !b.mine[i] {
		b.shards[i] = slices.Clone(b.shards[i])
		b.mine[i] = true
	}
	return &b.shards[i], ref | uint64(to)
}

// begin is called before a change.
func (b *addrBuilder) begin() {
	b.frozen = nil
	if b.seed == (maphash.Seed{}) {
		b.seed = maphash.MakeSeed()
	}
}

// number assigns a number to the owner of that key. It is never 0.
func (b *addrBuilder) number(key string) uint32 {
	b.begin()
	return b.keys.add(key)
}

// forget releases a number that no reference has.
func (b *addrBuilder) forget(number uint32) {
	b.begin()
	b.keys.remove(number)
}

func (b *addrBuilder) freeze() *addrIndex {
	if b.frozen == nil {
		b.begin() // an empty one has a seed, too
		frozen := b.addrIndex
		frozen.names = b.keys.freeze()
		b.frozen = &frozen
		clear(b.mine[:])
	}
	return b.frozen
}
