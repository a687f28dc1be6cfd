package dnswire

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"net/netip"
	"strings"

	"github.com/miekg/dns"
)

// Reasons why a message is rejected.
var (
	ErrMalformed = errors.New("malformed message")
	ErrCostly    = errors.New("names are far longer than the message")
)

// Limits for one message.
const (
	nameShare   = 4       // characters of names per byte of the message, ...
	leastNames  = 8 << 10 // ... and the minimum for a small message
	fewItems    = 2       // strings or parameters of a record that is returned as its own type, ...
	leastItem   = 8       // ... or their average size in bytes
	maxOptions  = 64      // in an OPT record
	maxPointers = 126     // for one name: as many as it may have labels (RFC 1035 section 3.1)
)

// Unpack parses a message from the network that has one question, with memory limited by its size:
// no received byte takes more than about sixteen bytes here, whatever the records contain. Its
// records are complete: none lacks a field or has extra bytes after its last one.
//
// Types that no code here inspects, and records with many tiny parts, are returned as dns.RFC3597.
// A name that many records share is one string. Names in RDATA may be compressed only in the types
// of RFC 3597 section 4.
//
// The error is ErrMalformed or ErrCostly.
func Unpack(message []byte) (*dns.Msg, error) {
	if len(message) < HeaderSize || count(message, 4) != 1 {
		return nil, ErrMalformed
	}
	r := unpacker{message: message, room: max(leastNames, nameShare*len(message)), names: make(map[int]string)}
	m := new(dns.Msg)
	m.MsgHdr = headerOf(message)
	name, at, err := r.name(HeaderSize)
	if err != nil {
		return nil, err
	}
	if at+4 > len(message) {
		return nil, ErrMalformed
	}
	m.Question = []dns.Question{{Name: name, Qtype: count16(message, at), Qclass: count16(message, at+2)}}
	at += 4
	if recordsEnd(message, at) == 0 { // checked before memory is allocated for them
		return nil, ErrMalformed
	}
	for i, section := range [...]*[]dns.RR{&m.Answer, &m.Ns, &m.Extra} {
		n := count(message, 6+2*i)
		if n > 0 {
			*section = make([]dns.RR, 0, n)
		}
		for range n {
			rr, end, err := r.record(at)
			if err != nil {
				return nil, err
			}
			*section = append(*section, rr)
			at = end
		}
	}
	if opt := m.IsEdns0(); opt != nil {
		m.Rcode |= opt.ExtendedRcode()
	}
	return m, nil
}

func headerOf(message []byte) dns.MsgHdr {
	bits := count16(message, 2)
	return dns.MsgHdr{
		Id: count16(message, 0), Response: bits&(1<<15) != 0, Opcode: int(bits>>11) & 0xf, Authoritative: bits&(1<<10) != 0,
		Truncated: bits&(1<<9) != 0, RecursionDesired: bits&(1<<8) != 0, RecursionAvailable: bits&(1<<7) != 0, Zero: bits&(1<<6) != 0,
		AuthenticatedData: bits&(1<<5) != 0, CheckingDisabled: bits&(1<<4) != 0, Rcode: int(bits & 0xf),
	}
}

// unpacker parses the records of one message.
type unpacker struct {
	message []byte
	room    int            // characters that names may still use
	names   map[int]string // by the offset where the name begins, or where its single pointer leads
}

// record parses the record at offset at, which must be complete.
func (r *unpacker) record(at int) (rr dns.RR, end int, err error) {
	owner, _, err := r.name(at)
	if err != nil {
		return nil, 0, err
	}
	data, end := Find(r.message, at)
	h := dns.RR_Header{
		Name: owner, Rrtype: count16(r.message, data-10), Class: count16(r.message, data-8),
		Ttl: binary.BigEndian.Uint32(r.message[data-6:]), Rdlength: uint16(end - data),
	}
	as, err := r.look(h.Rrtype, data, end)
	switch {
	case err != nil:
		return nil, 0, err
	case as == opaque:
		return &dns.RFC3597{Hdr: h, Rdata: hex.EncodeToString(r.message[data:end])}, end, nil
	}
	if rr, _, err = dns.UnpackRRWithHeader(h, r.message[:end], data); err != nil {
		return nil, 0, ErrMalformed
	}
	return rr, end, nil
}

// name parses the name at offset at. A name that is only a pointer is parsed once per target. If it
// has escapes, it is charged each time, because package dns copies such a name, of up to 1,004
// characters, whenever it packs it.
func (r *unpacker) name(at int) (name string, end int, err error) {
	from, end := at, 0
	if at+1 < len(r.message) && r.message[at] >= 0xc0 {
		from, end = count(r.message, at)&0x3fff, at+2
	}
	if name, ok := r.names[from]; ok && end > 0 {
		if strings.Contains(name, `\`) {
			if r.room -= len(name); r.room < 0 {
				return "", 0, ErrCostly
			}
		}
		return name, end, nil
	}
	after, err := r.pay(at)
	if err != nil {
		return "", 0, err
	}
	if name, _, err = dns.UnpackDomainName(r.message, at); err != nil {
		return "", 0, ErrMalformed
	}
	r.names[from] = name
	return name, after, nil
}

// pay charges r.room for the name at offset at and returns the offset of its end.
func (r *unpacker) pay(at int) (end int, err error) {
	size, chars, pointers := 1, 1, 0
	for {
		if at >= len(r.message) {
			return 0, ErrMalformed
		}
		n := int(r.message[at])
		switch {
		case n >= 0xc0:
			if pointers++; pointers > maxPointers || at+1 >= len(r.message) {
				return 0, ErrMalformed
			}
			if end == 0 {
				end = at + 2
			}
			at = count(r.message, at) & 0x3fff
			continue
		case n >= 0x40 || at+n >= len(r.message):
			return 0, ErrMalformed
		case n == 0:
			if r.room -= chars; r.room < 0 {
				return 0, ErrCostly
			}
			return max(end, at+1), nil
		}
		if size += 1 + n; size > MaxName {
			return 0, ErrMalformed
		}
		for _, c := range r.message[at+1 : at+1+n] {
			chars += int(written[c])
		}
		chars++
		at += 1 + n
	}
}

// written is the number of characters that package dns uses for a byte of a label.
var written = func() (table [256]uint8) {
	for i := range table {
		switch {
		case i < ' ' || i > '~':
			table[i] = 4 // \000
		case strings.ContainsRune(`."'@;()\ `, rune(i)):
			table[i] = 2
		default:
			table[i] = 1
		}
	}
	return table
}()

// Readable returns a record as the type that package dns has for it, which people can read. It
// returns rr itself if there is no such type or the RDATA does not fit it. It is meant for
// administrators' queries: the cost of a record with many tiny parts is limited only by its 64 KiB.
func Readable(rr dns.RR) dns.RR {
	octets, ok := rr.(*dns.RFC3597)
	if !ok {
		return rr
	}
	data, err := hex.DecodeString(octets.Rdata)
	if err != nil {
		return rr
	}
	h := octets.Hdr
	h.Rdlength = uint16(len(data))
	typed, _, err := dns.UnpackRRWithHeader(h, data, 0)
	if err != nil {
		return rr
	}
	return typed
}

// Addr returns the address in an A or AAAA record, and false for other records. An IPv4-mapped
// address is returned as IPv4.
func Addr(rr dns.RR) (netip.Addr, bool) {
	var octets []byte
	switch rr := rr.(type) {
	case *dns.A:
		octets = rr.A
	case *dns.AAAA:
		octets = rr.AAAA
	}
	addr, ok := netip.AddrFromSlice(octets)
	return addr.Unmap(), ok
}
