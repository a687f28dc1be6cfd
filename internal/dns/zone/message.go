package zone

import (
	"encoding/binary"

	"github.com/miekg/dns"
)

// asking is the part of a query, apart from the question, that its response copies.
type asking struct {
	id    uint16
	flags uint16 // RD and CD
	edns  bool   // the query has an OPT record
	do    bool   // the OPT record has the DO bit
	limit int    // maximum size of the response in bytes
}

// Sizes and bits of RFC 1035 section 4.1, RFC 4035 section 3.2.2 and RFC 6891 section 6.1.
const (
	headerSize  = 12
	bitQR       = 1 << 15
	bitAA       = 1 << 10
	bitTC       = 1 << 9
	bitRD       = 1 << 8
	bitRA       = 1 << 7
	bitCD       = 1 << 4
	maskOpcode  = 0xf << 11
	pointerBits = 0xc000
	maxPointer  = 0x3fff
	ednsSize    = 1232 // DNS flag day 2020
	optSize     = 11
	bitDO       = 1 << 15
)

// leastTCP is the smallest limit over TCP, where the server may add a cookie (RFC 7873). A query
// over UDP has a smaller one.
const leastTCP = dns.MaxMsgSize - 64

// message is a response being written.
type message struct {
	*lookup
	out   []byte
	start int // offset of the message in out
	limit int // maximum of len(out)

	domainAt  int // offset of the cluster domain in the message; 0 if it has not been written
	serviceAt int // the same for the Service of the SRV records
	compress  bool
}

// appendResponse writes the answer to dst as a message. What does not fit is omitted: from the
// answer section with TC set, and from the additional section silently and as a whole, as clients
// can do without it (RFC 2181 section 9). If a client cannot retry for more, over TCP, SRV targets
// are compressed before anything is omitted. RFC 2782 forbids that, but resolvers accept it, and a
// thousand endpoints fit.
func (l *lookup) appendResponse(dst []byte, q asking) []byte {
	m := message{lookup: l, out: dst, start: len(dst), limit: len(dst) + q.limit}
	if q.edns {
		m.limit -= m.ednsSize()
	}
	flags := q.flags&(bitRD|bitCD) | bitQR | bitAA | bitRA | uint16(l.rcode)
	m.begin(q.id)
	fits := m.answers()
	if !fits && q.limit >= leastTCP {
		m.compress = true
		m.begin(q.id)
		fits = m.answers()
	}
	switch {
	case !fits:
		flags |= bitTC
	case len(l.records) == 0:
		m.negative()
	default:
		m.additional()
	}
	if q.edns {
		m.edns(q.do)
	}
	binary.BigEndian.PutUint16(m.out[m.start+2:], flags)
	return m.out
}

// begin writes the header without its flags, and the question.
func (m *message) begin(id uint16) {
	m.domainAt, m.serviceAt = 0, 0
	if m.domain != nil {
		m.domainAt = m.zonePointer()
	}
	m.out = append(m.out[:m.start], byte(id>>8), byte(id), 0, 0, 0, 1, 0, 0, 0, 0, 0, 0)
	m.out = append(m.out, m.asked...)
	m.out = append(m.out, byte(m.qtype>>8), byte(m.qtype), 0, dns.ClassINET)
}

func (m *message) u16(v uint16) { m.out = binary.BigEndian.AppendUint16(m.out, v) }
func (m *message) u32(v uint32) { m.out = binary.BigEndian.AppendUint32(m.out, v) }

// at returns the offset of the next byte in the message.
func (m *message) at() int { return len(m.out) - m.start }

// count sets a count in the header.
func (m *message) count(section, n int) {
	binary.BigEndian.PutUint16(m.out[m.start+section:], uint16(n))
}

// Offsets of the counts in the header.
const (
	anCount = 6
	nsCount = 8
	arCount = 10
)

// answers writes the answer section, starting with a different record each time. It returns false
// if a record does not fit.
func (m *message) answers() bool {
	n := len(m.records)
	if n == 0 {
		return true
	}
	if m.haveHosts() {
		m.hosts = append(m.hosts[:0], make([]uint16, n)...)
	}
	first, turning := 0, m.turning()
	if turning > 1 {
		first = m.cfg.Rotate(turning)
	}
	for i := range n {
		before := len(m.out)
		if i < turning {
			m.answer((first + i) % turning)
		} else {
			m.answer(i)
		}
		if len(m.out) > m.limit {
			m.out = m.out[:before]
			m.count(anCount, i)
			return false
		}
	}
	m.count(anCount, n)
	return true
}

// haveHosts reports whether records of the additional section may refer to those of the answer
// section.
func (m *message) haveHosts() bool {
	return m.records[0].rtype == dns.TypeSRV || m.records[0].rtype == dns.TypeNS
}

// head writes a record up to its data; length completes it. owner is the offset of its name.
func (m *message) head(owner int, rtype uint16, ttl uint32) (data int) {
	owner |= pointerBits
	m.out = append(m.out, byte(owner>>8), byte(owner), byte(rtype>>8), byte(rtype), 0, dns.ClassINET,
		byte(ttl>>24), byte(ttl>>16), byte(ttl>>8), byte(ttl), 0, 0)
	return len(m.out)
}

func (m *message) length(data int) {
	binary.BigEndian.PutUint16(m.out[data-2:], uint16(len(m.out)-data))
}

// negative writes the SOA record that limits the lifetime of a negative answer (RFC 2308 section
// 3).
func (m *message) negative() {
	data := m.head(m.zonePointer(), dns.TypeSOA, m.cfg.negativeTTL)
	m.writeSOA()
	m.length(data)
	m.count(nsCount, 1)
}

func (m *message) zonePointer() int { return headerSize + int(m.labels[m.zoneAt]) }

// additional writes the addresses of the hosts in the answer section, either all or none.
func (m *message) additional() {
	before := len(m.out)
	for i := range m.extra {
		r := &m.extra[i]
		owner := int(m.hosts[r.of])
		if owner == 0 { // beyond the reach of a pointer
			m.writeHost(&m.records[r.of])
			owner = m.serviceAt
		}
		data := m.head(owner, r.rtype, m.ttl)
		m.writeAddr(r)
		m.length(data)
		if len(m.out) > m.limit {
			m.out = m.out[:before]
			return
		}
	}
	m.count(arCount, len(m.extra))
}

// staleCode returns the INFO-CODE (RFC 8914) of an answer from a stale Snapshot: Stale Answer or
// Stale NXDOMAIN Answer.
func (l *lookup) staleCode() uint16 {
	if l.rcode == dns.RcodeNameError {
		return dns.ExtendedErrorCodeStaleNXDOMAINAnswer
	}
	return dns.ExtendedErrorCodeStaleAnswer
}

// staleText is the text for staleCode.
const staleText = "the last known state of the cluster"

func (m *message) ednsSize() int {
	if m.snapshot.stale {
		return optSize + 6 + len(staleText)
	}
	return optSize
}

func (m *message) edns(do bool) {
	var flags uint16
	if do {
		flags = bitDO
	}
	size := m.ednsSize() - optSize
	m.out = append(m.out, 0, 0, byte(dns.TypeOPT), ednsSize>>8, ednsSize&0xff, 0, 0, byte(flags>>8), byte(flags), byte(size>>8), byte(size))
	if m.snapshot.stale {
		m.u16(dns.EDNS0EDE)
		m.u16(uint16(2 + len(staleText)))
		m.u16(m.staleCode())
		m.out = append(m.out, staleText...)
	}
	m.count(arCount, int(binary.BigEndian.Uint16(m.out[m.start+arCount:]))+1)
}
