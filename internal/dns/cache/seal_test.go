package cache

import (
	"bytes"
	"errors"
	"testing"
	"time"
)

// TestUnsealCache: a dump that is damaged, of another version, too old or from the future is
// rejected.
func TestUnsealCache(t *testing.T) {
	const written = time.Hour
	sealed := Seal([]byte("dump"), written)
	change := func(at int) []byte {
		changed := bytes.Clone(sealed)
		changed[at] ^= 1
		return changed
	}
	for _, test := range []struct {
		name string
		data []byte
		now  time.Duration
		away time.Duration // -1 if rejected
		err  error         // nil if it is rejected for its age
	}{
		{"at once", sealed, written, 0, nil},
		{"after a second", sealed, written + time.Second, time.Second, nil},
		{"too old", sealed, written + maxAway + 1, -1, nil},
		{"clock before the write time", sealed, written - 1, -1, nil},
		{"another version", change(len(sealMark) - 2), written, -1, errVersion},
		{"another checksum", change(len(sealMark)), written, -1, errDamaged},
		{"another time", change(len(sealed) - 5), written, -1, errDamaged},
		{"another octet", change(len(sealed) - 1), written, -1, errDamaged},
		{"cut", sealed[:len(sealed)-1], written, -1, errDamaged},
		{"cut in the header", sealed[:len(sealMark)+3], written, -1, errDamaged},
		{"other content before it", append([]byte("another mark    \n"), sealed...), written, -1, errDamaged},
		{"empty", nil, written, -1, errDamaged},
	} {
		dump, away, err := Unseal(test.data, test.now)
		if taken := err == nil; taken != (test.away >= 0) || taken && (away != test.away || string(dump) != "dump") {
			t.Errorf("%s: %q after %v, %v", test.name, dump, away, err)
		}
		if test.err != nil && !errors.Is(err, test.err) {
			t.Errorf("%s: %v, want %v", test.name, err, test.err)
		}
	}
}

// FuzzUnsealCache: Unseal accepts only the output of Seal.
func FuzzUnsealCache(f *testing.F) {
	f.Add(Seal([]byte("dump"), time.Minute), int64(time.Minute))
	f.Add([]byte(sealMark), int64(0))
	f.Fuzz(func(t *testing.T, data []byte, now int64) {
		dump, away, err := Unseal(data, time.Duration(now))
		if err == nil && (away < 0 || away > maxAway || !bytes.Equal(data, Seal(dump, time.Duration(now)-away))) {
			t.Errorf("accepted %q, written %v before", dump, away)
		}
	})
}
