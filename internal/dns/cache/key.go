package cache

import (
	"bytes"
	"encoding/binary"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/dns/dnswire"
)

// A key identifies the queries that share a response. DO and CD are part of it: without them, a
// client got records or failures meant for another (CVE-2024-0874, CoreDNS).
type key struct {
	question []byte // name in lower case, type, and class IN, in wire format
	flags    keyFlags
}

type keyFlags uint8

const (
	keyDO keyFlags = 1 << iota
	keyCD
	allFlags = keyDO | keyCD
)

func flagsOf(do, cd bool) (f keyFlags) {
	if do {
		f |= keyDO
	}
	if cd {
		f |= keyCD
	}
	return f
}

// room is the buffer for a key's question.
type room [dnswire.MaxQuestion]byte

// wireKey returns the key of a query in wire format. question is the result of its AppendKey.
func wireKey(q *dnsserver.WireQuery, question []byte) key {
	return key{question, flagsOf(q.DO, q.Msg[3]&bitCD != 0)}
}

// parsedKey returns the key of a parsed query. ok is false if its responses are never cached: it
// does not have exactly one question, has another class, or has an invalid name.
func (r *room) parsedKey(msg *dns.Msg) (k key, ok bool) {
	if len(msg.Question) != 1 || msg.Question[0].Qclass != dns.ClassINET {
		return key{}, false
	}
	end, err := dns.PackDomainName(msg.Question[0].Name, r[:dnswire.MaxName], 0, nil, false)
	if err != nil {
		return key{}, false
	}
	question := dnswire.AppendLower(r[:0], r[:end])
	question = binary.BigEndian.AppendUint16(question, msg.Question[0].Qtype)
	question = binary.BigEndian.AppendUint16(question, dns.ClassINET)
	opt := msg.IsEdns0()
	return key{question, flagsOf(opt != nil && opt.Do(), msg.CheckingDisabled)}, true
}

// name returns the qname in presentation format.
func (k key) name() (string, error) {
	name, _, err := dns.UnpackDomainName(k.question, 0)
	return name, err
}

func (k key) qtype() uint16 { return binary.BigEndian.Uint16(k.question[len(k.question)-4:]) }

func (k key) equal(other key) bool {
	return k.flags == other.flags && bytes.Equal(k.question, other.question)
}
