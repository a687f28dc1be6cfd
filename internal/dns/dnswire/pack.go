package dnswire

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"

	"github.com/miekg/dns"
)

// ErrTooLong means that a message has more bytes than TCP can carry.
var ErrTooLong = errors.New("message longer than 65535 bytes")

// maxScratch leaves space for a label after the longest message, because PackDomainName requires it
// before it looks for a pointer.
const maxScratch = dns.MaxMsgSize + 256

// scratch holds buffers that are large enough for any message.
var scratch = sync.Pool{New: func() any { return new([maxScratch]byte) }}

// Pack packs a message with compressed names (RFC 1035 section 4.1.4). (*dns.Msg).Pack would
// allocate as much memory as the uncompressed message has. Pack changes nothing in m except the
// extended RCODE of an OPT record, and may be called concurrently.
func Pack(m *dns.Msg) ([]byte, error) { return AppendPack(nil, m) }

// AppendPack is like Pack but appends to dst.
func AppendPack(dst []byte, m *dns.Msg) ([]byte, error) {
	buf := scratch.Get().(*[maxScratch]byte)
	defer scratch.Put(buf)
	p := packer{buf: buf[:], names: make(map[string]int)}
	if err := p.message(m); err != nil {
		return dst, err
	}
	if p.at > dns.MaxMsgSize {
		return dst, ErrTooLong
	}
	return append(dst, p.buf[:p.at]...), nil
}

// packer packs one message.
type packer struct {
	buf   []byte
	at    int
	names map[string]int // offsets of names that later ones can point to
	txt   *dns.TXT       // copy passed to other, reused
}

func (p *packer) message(m *dns.Msg) error {
	if opt := m.IsEdns0(); opt != nil {
		opt.SetExtendedRcode(uint16(m.Rcode))
	} else if m.Rcode > 0xf {
		return dns.ErrExtendedRcode
	}
	head := dns.Msg{MsgHdr: m.MsgHdr}
	head.Rcode &= 0xf
	if _, err := head.PackBuffer(p.buf); err != nil {
		return fmt.Errorf("packing a header: %w", err)
	}
	p.at = HeaderSize
	for _, q := range m.Question {
		if err := p.name(q.Name, true); err != nil {
			return err
		}
		if err := p.octets(q.Qtype, q.Qclass); err != nil {
			return err
		}
	}
	binary.BigEndian.PutUint16(p.buf[4:], uint16(len(m.Question)))
	for i, section := range [...][]dns.RR{m.Answer, m.Ns, m.Extra} {
		binary.BigEndian.PutUint16(p.buf[6+2*i:], uint16(len(section)))
		for _, rr := range section {
			if err := p.record(rr); err != nil {
				return err
			}
		}
	}
	return nil
}

// record packs a record. It packs types that occur in large numbers itself, without a copy.
func (p *packer) record(rr dns.RR) error {
	switch rr := rr.(type) {
	case *dns.A, *dns.AAAA, *dns.NS, *dns.CNAME, *dns.PTR, *dns.DNAME, *dns.MX, *dns.RFC3597:
	case *dns.TXT:
		if slices.ContainsFunc(rr.Txt, isEscaped) {
			if p.txt == nil {
				p.txt = new(dns.TXT)
			}
			*p.txt = *rr
			return p.other(p.txt)
		}
	default:
		return p.other(dns.Copy(rr))
	}
	h := rr.Header()
	if err := p.name(h.Name, true); err != nil {
		return err
	}
	if err := p.octets(h.Rrtype, h.Class, uint16(h.Ttl>>16), uint16(h.Ttl), 0); err != nil {
		return err
	}
	data := p.at
	if err := p.rdata(rr); err != nil {
		return packed(rr, err)
	}
	binary.BigEndian.PutUint16(p.buf[data-2:], uint16(p.at-data))
	return nil
}

func (p *packer) rdata(rr dns.RR) error {
	switch rr := rr.(type) {
	case *dns.A:
		return p.address(rr.A.To4())
	case *dns.AAAA:
		return p.address(rr.AAAA.To16())
	case *dns.NS:
		return p.name(rr.Ns, true)
	case *dns.CNAME:
		return p.name(rr.Target, true)
	case *dns.PTR:
		return p.name(rr.Ptr, true)
	case *dns.DNAME:
		return p.name(rr.Target, false)
	case *dns.MX:
		if err := p.octets(rr.Preference); err != nil {
			return err
		}
		return p.name(rr.Mx, true)
	case *dns.RFC3597:
		return p.hex(rr.Rdata)
	case *dns.TXT:
		return p.texts(rr.Txt)
	}
	return nil
}

// other packs a record of another type. rr must be a copy, because PackRR writes the length of the
// RDATA into it.
func (p *packer) other(rr dns.RR) (err error) {
	at := p.at
	if p.at, err = dns.PackRR(rr, p.buf, at, p.names, true); err != nil && at+dns.Len(rr) > dns.MaxMsgSize {
		return ErrTooLong
	}
	return packed(rr, err)
}

func packed(rr dns.RR, err error) error {
	if err != nil {
		return fmt.Errorf("packing a record of type %s: %w", dns.Type(rr.Header().Rrtype), err)
	}
	return nil
}

func (p *packer) name(name string, compress bool) (err error) {
	if p.at, err = dns.PackDomainName(name, p.buf, p.at, p.names, compress); errors.Is(err, dns.ErrBuf) {
		return ErrTooLong
	}
	return err
}

func (p *packer) octets(words ...uint16) error {
	if p.at+2*len(words) > len(p.buf) {
		return ErrTooLong
	}
	for _, word := range words {
		binary.BigEndian.PutUint16(p.buf[p.at:], word)
		p.at += 2
	}
	return nil
}

// address packs an address of one family. A nil address has no bytes, as in an update (RFC 2136
// section 2.4).
func (p *packer) address(ip net.IP) error {
	if p.at+len(ip) > len(p.buf) {
		return ErrTooLong
	}
	p.at += copy(p.buf[p.at:], ip)
	return nil
}

func (p *packer) hex(text string) error {
	size := hex.DecodedLen(len(text))
	if p.at+size > len(p.buf) {
		return ErrTooLong
	}
	if _, err := hex.Decode(p.buf[p.at:], []byte(text)); err != nil {
		return err
	}
	p.at += size
	return nil
}

// isEscaped reports whether a TXT string differs from its bytes.
func isEscaped(text string) bool { return strings.ContainsRune(text, '\\') || len(text) > 255 }

func (p *packer) texts(texts []string) error {
	for _, text := range texts {
		if p.at+1+len(text) > len(p.buf) {
			return ErrTooLong
		}
		p.buf[p.at] = byte(len(text))
		p.at += 1 + copy(p.buf[p.at+1:], text)
	}
	return nil
}
