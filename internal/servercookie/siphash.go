package servercookie

import (
	"encoding/binary"
	"math/bits"
)

// siphash is SipHash-2-4 (Aumasson and Bernstein, 2012) of data: the hash that RFC 9018 section 4.4 wants of everybody, so that
// the nameservers of one address may share a secret.
func siphash(key [2]uint64, data []byte) uint64 {
	s := state{key[0] ^ 0x736f6d6570736575, key[1] ^ 0x646f72616e646f6d, key[0] ^ 0x6c7967656e657261, key[1] ^ 0x7465646279746573}
	last := uint64(len(data)) << 56
	for ; len(data) >= 8; data = data[8:] {
		s.add(binary.LittleEndian.Uint64(data))
	}
	for i, octet := range data {
		last |= uint64(octet) << (8 * i)
	}
	s.add(last)
	s.v2 ^= 0xff
	for range 4 {
		s.round()
	}
	return s.v0 ^ s.v1 ^ s.v2 ^ s.v3
}

type state struct{ v0, v1, v2, v3 uint64 }

func (s *state) add(word uint64) {
	s.v3 ^= word
	s.round()
	s.round()
	s.v0 ^= word
}

func (s *state) round() {
	s.v0 += s.v1
	s.v2 += s.v3
	s.v1 = bits.RotateLeft64(s.v1, 13) ^ s.v0
	s.v3 = bits.RotateLeft64(s.v3, 16) ^ s.v2
	s.v0 = bits.RotateLeft64(s.v0, 32)
	s.v2 += s.v1
	s.v0 += s.v3
	s.v1 = bits.RotateLeft64(s.v1, 17) ^ s.v2
	s.v3 = bits.RotateLeft64(s.v3, 21) ^ s.v0
	s.v2 = bits.RotateLeft64(s.v2, 32)
}
