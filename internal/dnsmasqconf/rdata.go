package dnsmasqconf

import (
	"encoding/hex"
	"errors"
	"math"
	"strconv"
	"strings"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/nodeconfig"
)

// A Record is a record of any type, from txt-record, srv-host, ptr-record, caa-record,
// naptr-record or dns-rr.
type Record struct {
	Name  dnsname.Name
	RR    dns.RR // without owner and TTL; read-only
	Place Place
}

// newRR parses the bytes of a record. Bytes that are invalid for the type would make a response
// that no client can parse.
func newRR(rrtype uint16, data []byte) (dns.RR, error) {
	if len(data) == 0 {
		// Package dns takes a known type without bytes for a deletion in an update (RFC 2136).
		return &dns.RFC3597{Hdr: header(rrtype)}, nil
	}
	h := header(rrtype)
	h.Rdlength = uint16(len(data))
	rr, end, err := dns.UnpackRRWithHeader(h, data, 0)
	if err == nil && end != len(data) {
		err = errors.New("bytes after the end")
	}
	return rr, err
}

func header(rrtype uint16) dns.RR_Header {
	return dns.RR_Header{Name: ".", Rrtype: rrtype, Class: dns.ClassINET}
}

// readRR parses dns-rr=NAME,TYPE[,OCTETS]: the type as a number, the bytes in hexadecimal,
// optionally separated by colons, hyphens or blanks.
func readRR(l *loader, option, text string) {
	parts := list(text)
	name, ok := l.name(option, parts[0])
	if !ok {
		return
	}
	rrtype, err := strconv.ParseUint(field(parts, 1), 10, 31)
	if err != nil {
		l.fault(option, "the number of a type", nodeconfig.Quote(field(parts, 1)))
		return
	}
	data, err := octets(field(parts, 2))
	if err != nil || len(parts) > 3 || len(data) > math.MaxUint16/2 {
		l.fault(option, "bytes in hexadecimal", nodeconfig.Quote(shown(text)))
		return
	}
	if rrtype == 0 || rrtype > math.MaxUint16 {
		l.setAside(option, "there is no such type")
		return
	}
	l.addData(option, name, uint16(rrtype), data)
}

func (l *loader) add(name dnsname.Name, rr dns.RR) {
	l.config.Records = append(l.config.Records, Record{name, rr, l.place()})
}

func (l *loader) addData(option string, name dnsname.Name, rrtype uint16, data []byte) {
	rr, err := newRR(rrtype, data)
	if err != nil {
		l.setAside(option, "the bytes are not a valid record of type "+dns.Type(rrtype).String()+", and no client could parse the answer")
		return
	}
	l.add(name, rr)
}

// octets parses like dnsmasq's parse_hex: in each run of digits two form a byte, and the last may
// be a single digit.
func octets(text string) (data []byte, err error) {
	for _, run := range strings.FieldsFunc(text, func(r rune) bool { return r == ':' || r == '-' || r == ' ' }) {
		if len(run)%2 == 1 {
			run = run[:len(run)-1] + "0" + run[len(run)-1:]
		}
		more, err := hex.DecodeString(run)
		if err != nil {
			return nil, err
		}
		data = append(data, more...)
	}
	return data, nil
}

// readCAA parses caa-record=NAME,FLAGS,TAG,VALUE (RFC 8659 section 4).
func readCAA(l *loader, option, text string) {
	parts := list(text)
	name, ok := l.name(option, parts[0])
	if !ok {
		return
	}
	flags, err := strconv.ParseUint(field(parts, 1), 10, 31)
	if err != nil || len(parts) != 4 || parts[2] == "" || len(parts[2]) > math.MaxUint8 {
		l.fault(option, "a name, flags as a number, a tag and a value", nodeconfig.Quote(shown(text)))
		return
	}
	data := append([]byte{byte(flags), byte(len(parts[2]))}, parts[2]+parts[3]...)
	l.addData(option, name, dns.TypeCAA, data)
}

// readNAPTR parses naptr-record=NAME,ORDER,PREFERENCE,FLAGS,SERVICE,REGEXP[,REPLACEMENT] (RFC 3403
// section 4).
func readNAPTR(l *loader, option, text string) {
	parts := list(text)
	name, ok := l.name(option, parts[0])
	if !ok {
		return
	}
	var numbers [2]uint16
	for i := range numbers {
		if numbers[i], ok = l.uint16(option, field(parts, i+1), 0); !ok {
			return
		}
	}
	if len(parts) < 6 || len(parts) > 7 {
		l.fault(option, "a name, two numbers, flags, a service, an expression and at most a replacement", nodeconfig.Quote(shown(text)))
		return
	}
	to := dnsname.Root()
	if field(parts, 6) != "" {
		if to, ok = l.name(option, parts[6]); !ok {
			return
		}
	}
	data := []byte{byte(numbers[0] >> 8), byte(numbers[0]), byte(numbers[1] >> 8), byte(numbers[1])}
	for _, part := range parts[3:6] {
		if len(part) > math.MaxUint8 {
			l.fault(option, "texts of at most 255 bytes", "a longer one")
			return
		}
		data = append(append(data, byte(len(part))), part...)
	}
	buffer := make([]byte, 256)
	end, err := dns.PackDomainName(to.String(), buffer, 0, nil, false)
	if err != nil {
		l.fault(option, "a name", nodeconfig.Quote(parts[6]))
		return
	}
	l.addData(option, name, dns.TypeNAPTR, append(data, buffer[:end]...))
}
