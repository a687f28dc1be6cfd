package dnswire

import (
	"slices"

	"github.com/miekg/dns"
)

// MaxUDP is the maximum size in bytes of a parsed answer to a query over UDP, before the server
// truncates it to the client's limit. No client gets more over UDP: it is the largest value of
// edns-packet-max. Parsing and packing the thousands of records of 64 KiB takes a millisecond.
const MaxUDP = 4096

// leastRecord is the size in bytes of a record without data, whose name is a pointer (RFC 1035
// sections 3.2.1 and 4.1.4).
const leastRecord = 2 + 10

// Shorten returns m if it has at most MaxUDP bytes with compressed names. Otherwise it returns a
// message with the first records of its answer, and TC, for a client that gets no more over UDP
// anyway. It shares its records with m. m may be nil.
func Shorten(m *dns.Msg, qname string) *dns.Msg {
	if m == nil || isShort(m) {
		return m
	}
	n, size := 0, 0
	for ; n < len(m.Answer); n++ {
		if size += dns.Len(m.Answer[n]); size > MaxUDP {
			break
		}
	}
	short := *m
	short.Truncated, short.Ns, short.Extra = true, nil, nil
	short.Answer = slices.Clone(m.Answer[:n])
	if opt := m.IsEdns0(); opt != nil {
		short.Extra = []dns.RR{opt}
	}
	KeepRelated(&short, qname) // an alias may be among those that were left out
	return &short
}

// isShort reports whether m has at most MaxUDP bytes with compressed names. These are computed
// only for a message that is longer without compression and may be shorter with it.
func isShort(m *dns.Msg) bool {
	if (len(m.Answer)+len(m.Ns)+len(m.Extra))*leastRecord > MaxUDP {
		return false
	}
	plain, compressed := *m, *m
	plain.Compress, compressed.Compress = false, true
	return plain.Len() <= MaxUDP || compressed.Len() <= MaxUDP
}
