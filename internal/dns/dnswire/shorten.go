package dnswire

import (
	"slices"

	"github.com/miekg/dns"
)

// maxShort is the size in bytes up to which Shorten keeps a message. Few clients take more over
// UDP.
const maxShort = 4096

// Shorten returns m if its records have at most 4096 bytes. Otherwise it returns a message with the
// first records of its answer, and TC, for a client that gets no more over UDP anyway. It shares
// its records with m. m may be nil.
func Shorten(m *dns.Msg, qname string) *dns.Msg {
	if m == nil {
		return nil
	}
	n, size := 0, 0
	for ; n < len(m.Answer) && size <= maxShort; n++ {
		size += dns.Len(m.Answer[n])
	}
	for _, section := range [...][]dns.RR{m.Ns, m.Extra} {
		for i := 0; i < len(section) && size <= maxShort; i++ {
			size += dns.Len(section[i])
		}
	}
	if size <= maxShort {
		return m
	}
	short := *m
	short.Truncated, short.Ns, short.Extra = true, nil, nil
	short.Answer = slices.Clone(m.Answer[:max(0, n-1)])
	if opt := m.IsEdns0(); opt != nil {
		short.Extra = []dns.RR{opt}
	}
	KeepRelated(&short, qname) // an alias may be among those that were left out
	return &short
}
