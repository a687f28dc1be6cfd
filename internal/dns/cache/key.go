package cache

import (
	"bytes"
	"encoding/binary"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/dns/dnswire"
)

// A key is what two queries must have in common to get the same response. DO and
// CD are part of it: without them a client got records, or failures, that were
// meant for another (CVE-2024-0874, CoreDNS).
type key struct {
	question []byte // name in lower case, type, and class IN, as a message has them
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

// room is what a key's question is written into.
type room [dnswire.MaxQuestion]byte

// wireKey is the key of a query on the wire, whose AppendKey the question is.
func wireKey(q *dnsserver.WireQuery, question []byte) key {
	return key{question, flagsOf(q.DO, q.Msg[3]&bitCD != 0)}
}

// parsedKey is the key of a parsed query. ok is false when responses to it are not remembered: to more or less than one
// question, of another class, or for a name that is none.
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

// name is the qname as zone files write it.
func (k key) name() (string, error) {
	name, _, err := dns.UnpackDomainName(k.question, 0)
	return name, err
}

func (k key) qtype() uint16 { return binary.BigEndian.Uint16(k.question[len(k.question)-4:]) }

func (k key) equal(other key) bool {
	return k.flags == other.flags && bytes.Equal(k.question, other.question)
}
