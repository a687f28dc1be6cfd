package dnswire

import (
	"github.com/miekg/dns"
)

// form is the Go type that a record is returned as.
type form uint8

const (
	opaque form = iota // RDATA as bytes
	typed              // the specific type of package dns
)

// layout describes the fields of RDATA. Each letter or digit stands for a field:
//
//	1-8  that many bytes          *  bytes to the end, possibly none
//	n    a name                   N  names to the end
//	s    a length byte and that many bytes
//	S    such strings to the end  p  parameters of SVCB to the end
//	b    the types of NSEC        a  prefixes of APL to the end
//	h    HIP's identity and key   g  IPSECKEY's gateway, r AMTRELAY's relay
//
// Package dns accepts RDATA that ends before a field, as a record without that field: an SRV record
// without a target, or an NSEC3 record that it then packs for the client in an unreadable form.
type layout struct {
	fields       string
	form         form
	isCompressed bool // its names may be compressed: RFC 3597 section 4
}

// layouts lists the types that have a layout. RDATA of all other types is opaque. Types with names
// that may be compressed, and types that some code inspects, are typed.
var layouts = map[uint16]layout{
	dns.TypeA: {fields: "4", form: typed}, dns.TypeAAAA: {fields: "88", form: typed},
	dns.TypeNS: compressed("n"), dns.TypeCNAME: compressed("n"), dns.TypePTR: compressed("n"), dns.TypeMB: compressed("n"),
	dns.TypeMD: compressed("n"), dns.TypeMF: compressed("n"), dns.TypeMG: compressed("n"), dns.TypeMR: compressed("n"),
	dns.TypeMX: compressed("2n"), dns.TypeAFSDB: compressed("2n"), dns.TypeRT: compressed("2n"), dns.TypeRP: compressed("nn"),
	dns.TypeMINFO: compressed("nn"), dns.TypePX: compressed("2nn"), dns.TypeSOA: compressed("nn44444"), dns.TypeSRV: compressed("222n"),
	dns.TypeNAPTR: compressed("22sssn"), dns.TypeSIG: compressed("2114442n*"),

	dns.TypeDNAME: {fields: "n", form: typed}, dns.TypeKX: {fields: "2n", form: typed}, dns.TypeLP: {fields: "2n", form: typed},
	dns.TypeSVCB: {fields: "2np"}, dns.TypeHTTPS: {fields: "2np"},
	dns.TypeRRSIG: {fields: "2114442n*", form: typed}, dns.TypeTXT: {fields: "S", form: typed}, dns.TypeSPF: {fields: "S"},

	dns.TypeNSAPPTR: {fields: "n"}, dns.TypeTALINK: {fields: "nn"},
	dns.TypeHINFO: {fields: "ss"}, dns.TypeX25: {fields: "s"}, dns.TypeISDN: {fields: "sS"}, dns.TypeGPOS: {fields: "sss"},
	dns.TypeCAA: {fields: "1s*"}, dns.TypeURI: {fields: "22*"}, dns.TypeLOC: {fields: "1111444"},
	dns.TypeAVC: {fields: "S"}, dns.TypeNINFO: {fields: "S"}, dns.TypeRESINFO: {fields: "S"}, dns.TypeUINFO: {fields: "s"},
	dns.TypeNID: {fields: "28"}, dns.TypeL32: {fields: "24"}, dns.TypeL64: {fields: "28"}, dns.TypeEUI48: {fields: "6"}, dns.TypeEUI64: {fields: "8"},
	dns.TypeUID: {fields: "4"}, dns.TypeGID: {fields: "4"},
	dns.TypeDS: {fields: "211*"}, dns.TypeCDS: {fields: "211*"}, dns.TypeDLV: {fields: "211*"}, dns.TypeTA: {fields: "211*"},
	dns.TypeSSHFP: {fields: "11*"}, dns.TypeTLSA: {fields: "111*"}, dns.TypeSMIMEA: {fields: "111*"}, dns.TypeCERT: {fields: "221*"},
	dns.TypeZONEMD: {fields: "411*"}, dns.TypeCSYNC: {fields: "42b"}, dns.TypeAPL: {fields: "a"},
	dns.TypeDNSKEY: {fields: "211*"}, dns.TypeCDNSKEY: {fields: "211*"}, dns.TypeKEY: {fields: "211*"}, dns.TypeRKEY: {fields: "211*"},
	dns.TypeNSEC: {fields: "nb"}, dns.TypeNXT: {fields: "nb"}, dns.TypeNSEC3: {fields: "112ssb"}, dns.TypeNSEC3PARAM: {fields: "112s"},
	dns.TypeHIP: {fields: "hN"}, dns.TypeIPSECKEY: {fields: "g*"}, dns.TypeAMTRELAY: {fields: "r"},
	dns.TypeTSIG: {fields: "n*"}, dns.TypeTKEY: {fields: "n*"},
}

func compressed(fields string) layout { return layout{fields, typed, true} }

// look returns the form for a record of a type whose RDATA runs from at to end, and deducts its
// names from r.room.
func (r *unpacker) look(rrtype uint16, at, end int) (form, error) {
	rdata := r.message[:end]
	if rrtype == dns.TypeOPT {
		if n, end := parameters(rdata, at, false); end < 0 || n > maxOptions {
			return opaque, ErrMalformed
		}
		return typed, nil
	}
	l, ok := layouts[rrtype]
	if !ok {
		return opaque, nil
	}
	var err error
	name := plainName
	if l.isCompressed {
		name = func(_ []byte, at int) int {
			if at, err = r.pay(at); err != nil {
				return -1
			}
			return at
		}
	}
	n, ok := l.walk(rdata, at, name)
	switch {
	case err != nil:
		return opaque, err
	case !ok:
		return opaque, ErrMalformed
	case n > fewItems && n*leastItem > end-at:
		return opaque, nil
	}
	return l.form, nil
}

// walk reports whether data from offset at consists of exactly the fields, and how many strings or
// parameters it has in fields of variable number. name returns the offset of the end of a name, or
// -1.
func (l layout) walk(data []byte, at int, name func(data []byte, at int) int) (items int, ok bool) {
	for _, field := range l.fields {
		switch field {
		case '*':
			at = len(data)
		case 'n':
			at = name(data, at)
		case 'N':
			for at >= 0 && at < len(data) {
				at = name(data, at)
			}
		case 's':
			at = counted(data, at, 0, 1)
		case 'S':
			for at >= 0 && at < len(data) {
				at = counted(data, at, 0, 1)
				items++
			}
		case 'p':
			items, at = parameters(data, at, true)
		case 'b':
			at = bitmap(data, at)
		case 'a':
			for at >= 0 && at < len(data) {
				at = prefix(data, at)
			}
		case 'h':
			at = identity(data, at)
		case 'g':
			at = gateway(data, at, 3, 0xff)
		case 'r':
			at = gateway(data, at, 2, 0x7f)
		default:
			at += int(field - '0')
		}
		if at < 0 || at > len(data) {
			return 0, false
		}
	}
	return items, at == len(data)
}

// plainName returns the offset of the end of an uncompressed name, or -1.
func plainName(data []byte, at int) int {
	for from := at; at < len(data) && data[at] < 0x40 && at-from < MaxName; at += 1 + int(data[at]) {
		if data[at] == 0 {
			return at + 1
		}
	}
	return -1
}

// counted returns the end offset of a field that begins, after skip bytes, with its size in the
// given number of bytes. It returns -1 if the size is missing.
func counted(data []byte, at, skip, octets int) int {
	size := 0
	for i := range octets {
		if at+skip+i >= len(data) {
			return -1
		}
		size = size<<8 | int(data[at+skip+i])
	}
	return at + skip + octets + size
}

// parameters counts the parameters of an SVCB record (RFC 9460 section 2.2), whose keys must be in
// ascending order, or the options of an OPT record, which have the same format.
func parameters(data []byte, at int, rise bool) (n, end int) {
	for last := -1; at < len(data); n++ {
		begin := at
		if at = counted(data, begin, 2, 2); at < 0 || at > len(data) {
			return 0, -1
		}
		key := count(data, begin)
		if rise && (key <= last || !isValue(key, data[begin+4:at])) {
			return 0, -1
		}
		last = key
	}
	return n, at
}

// isValue reports whether an SVCB parameter is valid for its key (RFC 9460 sections 7 and 8). A
// client may reject the whole message because of an invalid one.
func isValue(key int, value []byte) bool {
	switch key {
	case 0: // mandatory
		return len(value) > 0 && len(value)%2 == 0
	case 1: // alpn
		at := 0
		for at >= 0 && at < len(value) {
			at = counted(value, at, 0, 1)
		}
		return len(value) > 0 && at == len(value)
	case 2: // no-default-alpn
		return len(value) == 0
	case 3: // port
		return len(value) == 2
	case 4: // ipv4hint
		return len(value) > 0 && len(value)%4 == 0
	case 6: // ipv6hint
		return len(value) > 0 && len(value)%16 == 0
	}
	return true
}

// bitmap returns the offset of the end of the type bitmap of an NSEC record (RFC 4034 section
// 4.1.2), or -1 if it is invalid.
func bitmap(data []byte, at int) int {
	for last := -1; at < len(data); {
		if at+2 > len(data) || int(data[at]) <= last || data[at+1] == 0 || data[at+1] > 32 {
			return -1
		}
		last = int(data[at])
		at += 2 + int(data[at+1])
	}
	return at
}

// prefix returns the offset of the end of an APL prefix (RFC 3123 section 4), or -1 if it is
// invalid.
func prefix(data []byte, at int) int {
	if at+4 > len(data) {
		return -1
	}
	octets := map[uint16]int{1: 4, 2: 16}[count16(data, at)]
	size := int(data[at+3] & 0x7f)
	if size > octets || int(data[at+2]) > 8*octets || at+4+size > len(data) || size > 0 && data[at+3+size] == 0 {
		return -1
	}
	return at + 4 + size
}

// identity returns the offset of the end of the key in a HIP record (RFC 8005 section 5), or -1.
func identity(data []byte, at int) int {
	if at+4 > len(data) {
		return -1
	}
	return at + 4 + int(data[at]) + count(data, at+2)
}

// gateway returns the offset of the end of the gateway of an IPSECKEY (RFC 4025 section 2.3) or
// AMTRELAY record (RFC 8777 section 4.2), or -1. It is preceded by the given number of bytes, of
// which the second has its kind.
func gateway(data []byte, at, octets int, kinds byte) int {
	if at+octets > len(data) {
		return -1
	}
	switch at += octets; data[at-octets+1] & kinds {
	case 0:
		return at
	case 1:
		return at + 4
	case 2:
		return at + 16
	case 3:
		return plainName(data, at)
	}
	return -1
}
