package edns

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnswire"
)

// judge returns a summary of a response on one line, and its violations of RFC 1035 section 4.1.1,
// RFC 6891 sections 6.1 and 7, and RFC 8906 section 3.
//
// The line has the rcode; the bits AA, TC, AD and CD that are set; qd=0 if there is no question;
// the numbers of records as an=N, ns=N and ar=N if not 0; and for an OPT record opt with its
// contents: do, ede=CODE, and cookie, or the code of any other option.
func judge(asked, response []byte, network string) (line string, faults []string) {
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	m := new(dns.Msg)
	if err := m.Unpack(response); err != nil {
		return "malformed", append(faults, err.Error())
	}
	if !bytes.Equal(asked[:2], response[:2]) {
		fault("another ID")
	}
	if asked[2]&0x79 != response[2]&0x79 {
		fault("opcode or RD changed")
	}
	if !m.Response || !m.RecursionAvailable {
		fault("QR %v, RA %v", m.Response, m.RecursionAvailable)
	}
	if m.Zero {
		fault("Z set")
	}
	end := dnswire.HeaderSize
	if len(m.Question) > 0 {
		if end = ownEnd(asked); end == 0 || len(response) < end || !bytes.Equal(asked[12:end], response[12:end]) || len(m.Question) > 1 {
			fault("not the question that was asked")
			return "malformed", faults
		}
	}
	if !dnswire.IsWhole(response, end) {
		fault("more or less than the header counts")
	}
	if limit := limitOf(asked, network); len(response) > limit {
		fault("%d octets, more than %d", len(response), limit)
	}
	words := []string{rcodeText(m.Rcode)}
	for i, bit := range []bool{m.Authoritative, m.Truncated, m.AuthenticatedData, m.CheckingDisabled} {
		if bit {
			words = append(words, []string{"aa", "tc", "ad", "cd"}[i])
		}
	}
	if len(m.Question) == 0 {
		words = append(words, "qd=0")
	}
	record := m.IsEdns0()
	others := slices.DeleteFunc(slices.Clone(m.Extra), func(rr dns.RR) bool { return rr == dns.RR(record) })
	for i, section := range [][]dns.RR{m.Answer, m.Ns, others} {
		if len(section) > 0 {
			words = append(words, fmt.Sprintf("%s=%d", []string{"an", "ns", "ar"}[i], len(section)))
		}
	}
	if record == nil {
		return strings.Join(words, " "), faults
	}
	if record.Version() != 0 || record.Hdr.Ttl&0x7fff != 0 || record.UDPSize() != 1232 || record.Hdr.Name != "." {
		fault("version %d, flags %04x, size %d", record.Version(), record.Hdr.Ttl&0xffff, record.UDPSize())
	}
	return strings.Join(append(words, optWords(record)...), " "), faults
}

func optWords(record *dns.OPT) []string {
	words := []string{"opt"}
	if record.Do() {
		words = append(words, "do")
	}
	for _, o := range record.Option {
		switch o := o.(type) {
		case *dns.EDNS0_EDE:
			words = append(words, fmt.Sprintf("ede=%d", o.InfoCode))
		case *dns.EDNS0_COOKIE:
			words = append(words, "cookie")
		default:
			words = append(words, fmt.Sprintf("option=%d", o.Option()))
		}
	}
	return words
}

func rcodeText(rcode int) string {
	if rcode == dns.RcodeBadVers { // package dns calls it TSIG's BADSIG
		return "BADVERS"
	}
	return dns.RcodeToString[rcode]
}

// ownEnd returns the end of the only question of a query, or 0 if it has none.
func ownEnd(asked []byte) int {
	at := dnswire.HeaderSize
	for at < len(asked) && asked[at] != 0 && asked[at] < 0x40 {
		at += 1 + int(asked[at])
	}
	if at += 5; at > len(asked) || binary.BigEndian.Uint16(asked[4:]) != 1 {
		return 0
	}
	return at
}

// limitOf returns the maximum size of a response, in bytes: the size in the query, at least 512 and
// at most 1232 (RFC 6891 section 6.2.5, RFC 9715). For a message without a question it is the size
// of the message, or of a header with an OPT record and a cookie, so that no client can amplify
// traffic.
func limitOf(asked []byte, network string) int {
	m := new(dns.Msg)
	switch {
	case ownEnd(asked) == 0:
		return max(len(asked), 12+11+28)
	case network == "tcp":
		return dns.MaxMsgSize
	case m.Unpack(asked) == nil && m.IsEdns0() != nil:
		return min(max(int(m.IsEdns0().UDPSize()), dns.MinMsgSize), 1232)
	}
	return dns.MinMsgSize
}

// withoutTTL returns a response with all TTLs 0, except that of the OPT record, and with a zero
// server cookie.
func withoutTTL(response []byte) []byte {
	response = bytes.Clone(response)
	counts := 0
	for i := 6; i < 12; i += 2 {
		counts += int(binary.BigEndian.Uint16(response[i:]))
	}
	at := dnswire.HeaderSize
	if binary.BigEndian.Uint16(response[4:]) == 1 {
		at = ownEnd(response)
	}
	for range counts {
		ttl, end := dnswire.Record(response, at)
		if binary.BigEndian.Uint16(response[ttl-4:]) != dns.TypeOPT {
			clear(response[ttl : ttl+4])
		} else if last := end - 16; end-ttl == 6+28 {
			clear(response[last:end]) // of a cookie, which contains the time
		}
		at = end
	}
	return response
}
