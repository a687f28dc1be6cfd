package zone

import "maps"

// tableShards is the number of maps in a table. A change copies one: 40 entries for 10,000
// Services.
const tableShards = 256

// table is an immutable map that shares unchanged parts with earlier and later tables.
type table[V any] struct{ shards [tableShards]map[string]V }

// shardOf returns the hash of a key, folded to the number of shards: 64-bit FNV-1a, but over eight
// bytes at a time.
func shardOf[S string | []byte](key S) uint8 {
	const offset, prime = 14695981039346656037, 1099511628211
	hash, rest := uint64(offset), key
	for len(rest) >= 8 {
		hash = (hash ^ (uint64(rest[0]) | uint64(rest[1])<<8 | uint64(rest[2])<<16 | uint64(rest[3])<<24 |
			uint64(rest[4])<<32 | uint64(rest[5])<<40 | uint64(rest[6])<<48 | uint64(rest[7])<<56)) * prime
		hash ^= hash >> 29
		rest = rest[8:]
	}
	for i := range len(rest) {
		hash = (hash ^ uint64(rest[i])) * prime
	}
	hash ^= hash >> 32
	return uint8(hash ^ hash>>8 ^ hash>>16 ^ hash>>24)
}

// fnv is 32-bit FNV-1a.
func fnv[S string | []byte](text S) uint32 {
	const offset, prime = 2166136261, 16777619
	hash := uint32(offset)
	for i := range len(text) {
		hash = (hash ^ uint32(text[i])) * prime
	}
	return hash
}

// find returns the value for key, or V's zero value. It does not allocate.
func (t *table[V]) find(key []byte) V { return t.shards[shardOf(key)][string(key)] }

func (t *table[V]) get(key string) V { return t.shards[shardOf(key)][key] }

func (t *table[V]) each(yield func(string, V) bool) {
	for _, shard := range t.shards {
		for key, value := range shard {
			if !yield(key, value) {
				return
			}
		}
	}
}

// tableBuilder builds successive tables. The zero value is empty.
type tableBuilder[V any] struct {
	table[V]
	mine   [tableShards]bool // shards that no frozen table shares
	frozen *table[V]         // nil after a change
}

func (b *tableBuilder[V]) set(key string, value V) { b.own(key)[key] = value }

func (b *tableBuilder[V]) delete(key string) { delete(b.own(key), key) }

// own returns a writable map for key.
func (b *tableBuilder[V]) own(key string) map[string]V {
	i := shardOf(key)
	b.frozen = nil
	switch {
	case b.shards[i] == nil:
		b.shards[i] = map[string]V{}
	case !b.mine[i]:
		b.shards[i] = maps.Clone(b.shards[i])
	}
	b.mine[i] = true
	return b.shards[i]
}

// freeze returns a table with the current contents of b.
func (b *tableBuilder[V]) freeze() *table[V] {
	if b.frozen == nil {
		frozen := b.table
		b.frozen = &frozen
		clear(b.mine[:])
	}
	return b.frozen
}
