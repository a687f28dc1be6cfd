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
// have it in two slices while they are rewritten. It knows the hashes of addresses alone, so that an endpoint takes eight
// octets, without a pointer: who is found may have another address, and has to be asked. It is immutable, as a table is.
type addrIndex struct {
	// shards have the references, sorted: 32 bits of the address's hash, and then the number of who has it.
	shards [addrShards][]uint64
	seed   maphash.Seed // random: who chooses addresses cannot choose their hashes
	names  names
}

// hash returns the shard of an address, and its references without a number.
func (x *addrIndex) hash(addr netip.Addr) (shard int, ref uint64) {
	hash := maphash.Comparable(x.seed, addr.As16()) // IPv4 as IPv4-mapped
	return int(hash >> (64 - addrShardBits)), hash << 32
}

// at returns references to all that have addr, and maybe to others; names knows them. It does not allocate.
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
	names  namesBuilder
	frozen *addrIndex // nil: there was a change since
}

// add puts in one reference more. again says that there was the same one already.
func (b *addrBuilder) add(addr netip.Addr, to uint32) (again bool) {
	shard, ref := b.own(addr, to)
	end, _ := slices.BinarySearch(*shard, ref+1) // behind those that are the same: of many few are moved
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

// number gives who has that key a number, which is not 0.
func (b *addrBuilder) number(key string) uint32 {
	b.begin()
	return b.names.add(key)
}

// forget takes a number back, to which there is no reference.
func (b *addrBuilder) forget(number uint32) {
	b.begin()
	b.names.remove(number)
}

func (b *addrBuilder) freeze() *addrIndex {
	if b.frozen == nil {
		b.begin() // an empty one has a seed, too
		frozen := b.addrIndex
		frozen.names = b.names.freeze()
		b.frozen = &frozen
		clear(b.mine[:])
	}
	return b.frozen
}
