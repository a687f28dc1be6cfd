package cache

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

// sealMark begins a sealed dump. The number is the version of what follows: a SHA-256 of the rest, the
// time by CLOCK_BOOTTIME, and what cache.Dump wrote.
const sealMark = "node-dns cache 2\n"

// Seal wraps a dump that another process is to take over. now is CLOCK_BOOTTIME.
func Seal(dump []byte, now time.Duration) []byte {
	body := append(binary.BigEndian.AppendUint64(nil, uint64(now)), dump...)
	sum := sha256.Sum256(body)
	return append(append([]byte(sealMark), sum[:]...), body...)
}

// Unseal returns a dump that Seal wrapped, and how long ago that was. A dump that is damaged, of another version or more than a minute
// old is an error. now is CLOCK_BOOTTIME.
func Unseal(data []byte, now time.Duration) (dump []byte, away time.Duration, err error) {
	mark, data := data[:min(len(sealMark), len(data))], data[min(len(sealMark), len(data)):]
	switch {
	case string(mark) != sealMark && bytes.HasPrefix(mark, []byte("node-dns cache ")):
		return nil, 0, errVersion
	case string(mark) != sealMark, len(data) < sha256.Size+8:
		return nil, 0, errDamaged
	}
	sum, body := data[:sha256.Size], data[sha256.Size:]
	if computed := sha256.Sum256(body); !bytes.Equal(sum, computed[:]) {
		return nil, 0, errDamaged
	}
	away = now - time.Duration(binary.BigEndian.Uint64(body))
	if away < 0 || away > maxAway {
		return nil, 0, fmt.Errorf("too old: %d s", away/time.Second)
	}
	return body[8:], away, nil
}

// Why a dump is not taken over.
var (
	errDamaged = errors.New("damaged")
	errVersion = errors.New("written by another version of node-dns")
)

// maxAway is how old a cache may be that is taken over. A restart takes a second; what is older is no restart.
const maxAway = time.Minute
