package cache

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"
	"unique"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnswire"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
)

// ErrDamaged is the error for data that Dump did not write.
var ErrDamaged = errors.New("damaged cache entries")

// Dump serializes the cache for Restore of another Cache of the same program version. It writes the
// newest entries of each shard first, and at most limit bytes in total.
func (c *Cache) Dump(limit int) []byte {
	if c.store == nil {
		return nil
	}
	// Most entries take more memory than bytes of the dump. The last one may exceed the limit.
	data := make([]byte, 0, min(limit, c.Stats().Bytes)+dns.MaxMsgSize)
	now := c.elapsed()
	for i := range c.store.shards {
		room := (limit - len(data)) / (len(c.store.shards) - i)
		data = c.store.shards[i].dump(data, len(data)+room, now, c.stale.life)
	}
	return data
}

func (h *shard) dump(data []byte, limit int, now, stale time.Duration) []byte {
	h.mu.Lock()
	defer h.mu.Unlock()
	for e := h.responses.newest; e != nil; e = e.older {
		if !e.isUsable(now, stale) {
			continue
		}
		whole := len(data)
		if data = e.dump(data, now); len(data) > limit {
			return data[:whole]
		}
	}
	return data
}

// dump appends the entry: flags, age and lifetime in milliseconds, and the server and the response,
// each with its length before it.
func (e *entry) dump(data []byte, now time.Duration) []byte {
	age := max(0, now-e.stored)
	for _, n := range []uint64{uint64(e.flags), uint64(age.Milliseconds()), uint64(e.life.Milliseconds())} {
		data = binary.AppendUvarint(data, n)
	}
	server := e.server.Value().String()
	data = append(binary.AppendUvarint(data, uint64(len(server))), server...)
	return append(binary.AppendUvarint(data, uint64(len(e.wire))), e.wire...)
}

// Restore loads entries from Dump, aged by the time away, and returns their number. It skips
// entries that have expired, that keep rejects, or for which the cache has a newer response. On an
// error it loads nothing. keep must not call the Cache; nil keeps all.
func (c *Cache) Restore(data []byte, away time.Duration, keep func(Entry) bool) (int, error) {
	if c.store == nil {
		return 0, nil
	}
	var all []*entry
	now := c.elapsed()
	for r := (dumpReader{rest: data}); len(r.rest) > 0; {
		e := r.entry(now - away)
		if r.rest == nil {
			return 0, ErrDamaged
		}
		if e != nil {
			all = append(all, e)
		}
	}
	taken, epoch := 0, c.store.epoch.Load()
	for _, e := range slices.Backward(all) {
		known, _ := c.store.get(e.key())
		if known != nil || !e.isUsable(now, c.stale.life) || keep != nil && !keep(e.describe(now)) {
			continue
		}
		c.store.put(e, epoch)
		taken++
	}
	return taken, nil
}

// dumpReader parses the output of dump.
type dumpReader struct{ rest []byte }

// entry parses one entry that was dumped at the time at. It returns nil for an entry that newEntry
// would not have made.
func (r *dumpReader) entry(at time.Duration) *entry {
	flags, age, life := r.number(uint64(allFlags)), r.number(maxDumpAge), r.number(maxDumpAge)
	from, wire := r.octets(), r.octets()
	var server nameserver.Server
	if server.UnmarshalText(from) != nil {
		return nil
	}
	e := &entry{
		wire: bytes.Clone(wire), flags: keyFlags(flags), server: unique.Make(server),
		stored: at - time.Duration(age)*time.Millisecond, life: time.Duration(life) * time.Millisecond,
	}
	if !e.readWire() {
		return nil
	}
	return e
}

// readWire finds the end of the question and reports whether wire is what newEntry makes:
// everything that the cache later reads without bounds checks is present, and its TTLs cover the
// entry's lifetime.
func (e *entry) readWire() bool {
	if len(e.wire) > dns.MaxMsgSize {
		return false
	}
	m, err := dnswire.Unpack(e.wire)
	if err != nil || m.Id != 0 || !m.Response || m.Truncated || m.Authoritative || len(m.Question) != 1 {
		return false
	}
	var room room
	k, ok := room.parsedKey(m)
	e.end = uint16(dnswire.HeaderSize + len(k.question))
	if !ok || !bytes.HasPrefix(e.wire[dnswire.HeaderSize:], k.question) || !dnswire.IsWhole(e.wire, int(e.end)) {
		return false
	}
	whole := true
	eachTTL(m, func(ttl uint32) uint32 {
		whole = whole && time.Duration(ttl)*time.Second >= e.life
		return ttl
	})
	return whole && m.IsEdns0() == nil
}

// maxDumpAge is in milliseconds. A TTL has 31 bits (RFC 2181 section 8).
const maxDumpAge = 1000 << 31

// number parses a number. After an error, rest is nil.
func (r *dumpReader) number(limit uint64) uint64 {
	n, size := binary.Uvarint(r.rest)
	if size <= 0 || n > limit {
		r.rest = nil
		return 0
	}
	r.rest = r.rest[size:]
	return n
}

func (r *dumpReader) octets() []byte {
	n := r.number(1 << 20)
	if n > uint64(len(r.rest)) {
		r.rest = nil
		return nil
	}
	octets := r.rest[:n:n]
	r.rest = r.rest[n:]
	return octets
}

// sealMark begins a sealed dump. Its number is the version of the format: a SHA-256 of the rest,
// the time by CLOCK_BOOTTIME, the settings, and the output of Cache.Dump.
const sealMark = "node-dns cache 3\n"

const sealHeader = len(sealMark) + sha256.Size

// Sealed is a dump from another process. The zero Sealed has no dump.
type Sealed struct {
	Dump     []byte
	Settings [sha256.Size]byte // identifies the settings under which the responses were stored
	Away     time.Duration     // age of the dump
}

// Seal wraps a dump for another process. now is CLOCK_BOOTTIME.
func Seal(dump []byte, settings [sha256.Size]byte, now time.Duration) []byte {
	sealed := make([]byte, sealHeader, sealHeader+8+len(settings)+len(dump))
	sealed = binary.BigEndian.AppendUint64(sealed, uint64(now))
	sealed = append(append(sealed, settings[:]...), dump...)
	sum := sha256.Sum256(sealed[sealHeader:])
	copy(sealed[copy(sealed, sealMark):], sum[:])
	return sealed
}

// Unseal returns a dump that Seal wrapped. It returns an error for a dump that is damaged, of
// another version, or more than a minute old. now is CLOCK_BOOTTIME.
func Unseal(data []byte, now time.Duration) (Sealed, error) {
	mark, data := data[:min(len(sealMark), len(data))], data[min(len(sealMark), len(data)):]
	switch {
	case string(mark) != sealMark && bytes.HasPrefix(mark, []byte("node-dns cache ")):
		return Sealed{}, errVersion
	case string(mark) != sealMark, len(data) < sha256.Size+8+sha256.Size:
		return Sealed{}, errDamaged
	}
	sum, body := data[:sha256.Size], data[sha256.Size:]
	if computed := sha256.Sum256(body); !bytes.Equal(sum, computed[:]) {
		return Sealed{}, errDamaged
	}
	away := now - time.Duration(binary.BigEndian.Uint64(body))
	if away < 0 || away > maxAway {
		return Sealed{}, fmt.Errorf("too old: %d s", away/time.Second)
	}
	return Sealed{Dump: body[8+sha256.Size:], Settings: [sha256.Size]byte(body[8:]), Away: away}, nil
}

// Why a dump is rejected.
var (
	errDamaged = errors.New("damaged")
	errVersion = errors.New("written by another version of node-dns")
)

// maxAway is the maximum age of a dump. A restart takes a second.
const maxAway = time.Minute
