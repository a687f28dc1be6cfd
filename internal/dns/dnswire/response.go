package dnswire

import (
	"encoding/binary"
	"iter"
	"math"
	"slices"

	"github.com/miekg/dns"
)

// A Response holds everything about a simple response that is known without parsing it.
type Response struct {
	Message []byte // without its OPT record
	End     int    // of the question
	TTL     uint32 // smallest TTL in seconds, at most 2^31-1
	Answers bool   // there is a record of the queried type
	IsAlias bool   // there is a CNAME record
	Minimum uint32 // of the SOA record, at most 2^31-1
	SOA     int    // offset of the TTL of the SOA record; 0 if there is none
	HasOPT  bool
	Cookie  []byte // from the OPT record; empty if there is none
}

// ReadResponse reads a response to a question that ends at offset end. ok is false if the message
// is not a response, or not a simple one and must be parsed. A simple response has
//   - rcode NOERROR or NXDOMAIN, opcode 0 and no TC;
//   - as answers, records of class IN whose data is easy to check, each owned by the qname or by
//     the target of the preceding CNAME record, because no other records were requested
//     (MaginotDNS, 2023);
//   - as authority, nothing or the SOA record of a zone that contains the last of these names;
//   - as additional records, nothing or an OPT record without options except a cookie;
//   - names that are compressed as far as they share the last labels of the question, by pointers
//     to earlier labels;
//   - no upper-case letters outside the question name.
func ReadResponse(message []byte, end int) (r Response, ok bool) {
	if len(message) < end || len(message) > math.MaxUint16 || message[2]&(bitQR|opcodeBits|bitTC) != bitQR || count16(message, 4) != 1 {
		return r, false
	}
	rcode := message[3] & 0xf
	if rcode != dns.RcodeSuccess && rcode != dns.RcodeNameError {
		return r, false
	}
	answers, authority, additional := count16(message, 6), count16(message, 8), count16(message, 10)
	if authority > 1 || additional > 1 || answers > maxAnswers {
		return r, false
	}
	rd := responseReader{message: message, end: end}
	if !rd.readQName() {
		return r, false
	}
	r = Response{End: end, TTL: math.MaxInt32}
	qtype, at := count16(message, end-4), end
	for range answers {
		rr, ok := rd.record(at)
		if !ok || !rd.isOwner(rr) || !rd.checkData(rr) {
			return r, false
		}
		r.TTL = min(r.TTL, rr.ttl)
		r.Answers = r.Answers || rr.rrtype == qtype || qtype == dns.TypeANY
		at = rr.end
	}
	r.IsAlias = rd.isAlias
	if authority == 1 {
		rr, ok := rd.record(at)
		if !ok || rr.rrtype != dns.TypeSOA || !rd.isWithin(rr) || !rd.checkData(rr) {
			return r, false
		}
		r.TTL, r.SOA = min(r.TTL, rr.ttl), rr.data-6
		if r.Minimum = binary.BigEndian.Uint32(message[rr.end-4:]); r.Minimum > math.MaxInt32 {
			return r, false
		}
		at = rr.end
	}
	r.Message = message[:at]
	if additional == 1 {
		if r.Cookie, r.HasOPT = readOPT(message[at:]); !r.HasOPT {
			return r, false
		}
		at = len(message)
	}
	return r, at == len(message)
}

// Targets returns the targets of the CNAME records, in lower case. Each is valid until the next
// one.
func (r Response) Targets() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		rd := responseReader{message: r.Message, end: r.End}
		at := r.End
		for range count16(r.Message, 6) {
			rr, ok := rd.record(at)
			if !ok || !rd.checkData(rr) || rr.rrtype == dns.TypeCNAME && !yield(rd.alias.text()) {
				return
			}
			at = rr.end
		}
	}
}

const (
	bitQR      = 1 << 7
	opcodeBits = 0xf << 3
	maxAnswers = 32 // so that no chain is longer than forward follows; more answers mean parsing
)

// readOPT reads an OPT record whose extended rcode is 0 (RFC 6891 section 6.1.3). ok is false if it
// has more than a cookie or padding.
func readOPT(wire []byte) (cookie []byte, ok bool) {
	const size, optionHeader = 11, 4
	if len(wire) < size || wire[0] != 0 || count16(wire, 1) != dns.TypeOPT || wire[5] != 0 || count(wire, 9) != len(wire)-size {
		return nil, false
	}
	option := wire[size:]
	if len(option) == 0 {
		return nil, true
	}
	if len(option) < optionHeader || count(option, 2) != len(option)-optionHeader {
		return nil, false
	}
	switch count16(option, 0) {
	case dns.EDNS0COOKIE:
		return option[optionHeader:], true
	case dns.EDNS0PADDING:
		return nil, true
	}
	return nil, false
}

// responseReader reads the records of a message in order.
type responseReader struct {
	message []byte
	end     int // of the question
	qname   name
	alias   name // target of the last CNAME record
	isAlias bool // there was a CNAME record
	owner   name
	labels  [64]uint16 // offsets of labels outside the question
	count   int
}

// A name is a name in lower case, with the root label.
type name struct {
	octets [MaxName]byte
	size   int
	own    int // bytes that are not shared with the question
}

func (n *name) text() []byte { return n.octets[:n.size] }

type record struct {
	rrtype    uint16
	ttl       uint32
	data, end int
	isQName   bool // the owner is a pointer to the question's name
}

func (rd *responseReader) readQName() bool {
	if rd.end < HeaderSize+5 || rd.end > HeaderSize+MaxQuestion {
		return false
	}
	rd.qname.size = len(AppendLower(rd.qname.octets[:0], rd.message[HeaderSize:rd.end-4]))
	return true
}

// record reads the record at offset at. It checks that the data is inside the message, but not what
// it contains.
func (rd *responseReader) record(at int) (rr record, ok bool) {
	const pointer = 0xc000 | HeaderSize
	m := rd.message
	if rr.isQName = at+2 <= len(m) && count16(m, at) == pointer; rr.isQName {
		at += 2
	} else if at, ok = rd.name(at, &rd.owner); !ok {
		return rr, false
	}
	if at+10 > len(m) || count16(m, at+2) != dns.ClassINET {
		return rr, false
	}
	rr.rrtype, rr.ttl = count16(m, at), binary.BigEndian.Uint32(m[at+4:])
	rr.data = at + 10
	rr.end = rr.data + count(m, at+8)
	return rr, rr.end <= len(m) && rr.ttl <= math.MaxInt32
}

// current returns the name that is currently being answered.
func (rd *responseReader) current() *name {
	if rd.isAlias {
		return &rd.alias
	}
	return &rd.qname
}

func (rd *responseReader) isOwner(rr record) bool {
	if rr.isQName {
		return !rd.isAlias
	}
	return string(rd.owner.text()) == string(rd.current().text())
}

// isWithin reports whether the current name is in the zone that owns the record.
func (rd *responseReader) isWithin(rr record) bool {
	if rr.isQName {
		rd.owner = rd.qname
	}
	rest, zone := rd.current().text(), rd.owner.text()
	for len(rest) > len(zone) {
		rest = rest[1+rest[0]:]
	}
	return string(rest) == string(zone)
}

// checkData reports whether the data of a record is valid for its type.
func (rd *responseReader) checkData(rr record) bool {
	size := rr.end - rr.data
	switch rr.rrtype {
	case dns.TypeA:
		return size == 4
	case dns.TypeAAAA:
		return size == 16
	case dns.TypeTXT:
		at := rr.data
		for at < rr.end {
			at += 1 + int(rd.message[at])
		}
		return size > 0 && at == rr.end
	case dns.TypeCNAME:
		var target name // the owner may be where the target was
		end, ok := rd.name(rr.data, &target)
		rd.alias, rd.isAlias = target, true
		return ok && end == rr.end
	case dns.TypePTR:
		end, ok := rd.name(rr.data, &rd.owner)
		return ok && end == rr.end
	case dns.TypeSOA:
		var other name
		at, ok := rd.name(rr.data, &other)
		if ok {
			at, ok = rd.name(at, &other)
		}
		return ok && at+20 == rr.end
	}
	return false
}

// name reads the name at offset at, which must not be the question's, and returns the offset of its
// end. ok is false if it is invalid, or if it repeats labels of the question instead of pointing to
// them. Repeated labels have the case that the upstream server chose, while those in the question
// have the client's.
func (rd *responseReader) name(at int, n *name) (end int, ok bool) {
	m, highest := rd.message, at
	n.size = 0
	for n.own = -1; ; {
		if at >= len(m) {
			return 0, false
		}
		size := int(m[at])
		switch {
		case size == 0:
			n.octets[n.size] = 0
			n.size++
			if end == 0 {
				end = at + 1
			}
			if n.own < 0 {
				n.own = n.size - 1
			}
			return end, rd.isCompressed(n)
		case size >= 0xc0:
			if at+2 > len(m) {
				return 0, false
			}
			if end == 0 {
				end = at + 2
			}
			at = count(m, at) & 0x3fff
			if at >= highest || !rd.isLabel(at) {
				return 0, false
			}
			if highest = at; at < rd.end && n.own < 0 {
				n.own = n.size
			}
		case size >= 0x40 || n.size+1+size >= MaxName || at+1+size > len(m) || !rd.addLabel(at):
			return 0, false
		default:
			n.size = len(AppendLower(n.octets[:n.size], m[at:at+1+size]))
			at += 1 + size
		}
	}
}

// addLabel records the offset of a label. It returns false if there are too many.
func (rd *responseReader) addLabel(at int) bool {
	if at < rd.end || rd.count > 0 && at <= int(rd.labels[rd.count-1]) {
		return true // already recorded
	}
	if rd.count == len(rd.labels) {
		return false
	}
	rd.labels[rd.count] = uint16(at)
	rd.count++
	return true
}

// isLabel reports whether a label other than the root begins at offset at. A pointer into a number,
// such as a TTL, would lead to a different name when the number changes.
func (rd *responseReader) isLabel(at int) bool {
	if at >= rd.end {
		_, ok := slices.BinarySearch(rd.labels[:rd.count], uint16(at))
		return ok
	}
	for i := HeaderSize; i <= at && rd.message[i] != 0; i += 1 + int(rd.message[i]) {
		if i == at {
			return true
		}
	}
	return false
}

// isCompressed reports whether the labels outside the question repeat none of its labels.
func (rd *responseReader) isCompressed(n *name) bool {
	common, qname := n.size-n.own, rd.qname.text() // with the root label
	if common >= len(qname) {
		return true // it ends with the entire qname
	}
	last := 0 // the label before the common part
	for at := 0; at < n.own; at += 1 + int(n.octets[at]) {
		last = at
	}
	before := 0
	for at := 0; at < len(qname)-common; at += 1 + int(qname[at]) {
		before = at
	}
	return n.own == 0 || string(n.octets[last:n.own]) != string(qname[before:len(qname)-common])
}
