package cache

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

// sealMark begins a sealed dump. Its number is the version of the format: a SHA-256 of the rest,
// the time by CLOCK_BOOTTIME, and the output of Cache.Dump.
const sealMark = "node-dns cache 2\n"

// Seal wraps a dump for another process. now is CLOCK_BOOTTIME.
func Seal(dump []byte, now time.Duration) []byte {
	body := append(binary.BigEndian.AppendUint64(nil, uint64(now)), dump...)
	sum := sha256.Sum256(body)
	return append(append([]byte(sealMark), sum[:]...), body...)
}

// Unseal returns a dump that Seal wrapped, and its age. It returns an error for a dump that is
// damaged, of another version, or more than a minute old. now is CLOCK_BOOTTIME.
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

// Why a dump is rejected.
var (
	errDamaged = errors.New("damaged")
	errVersion = errors.New("written by another version of node-dns")
)

// maxAway is the maximum age of a dump. A restart takes a second.
const maxAway = time.Minute
