package dnsserver

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnswire"
)

// udpSize is the size at which a response fits every path without fragmentation (DNS flag day 2020,
// RFC 9715 section 3).
const udpSize = 1232

// maxOptions is the maximum number of Extended DNS Errors copied from a response.
const maxOptions = 4

// failure returns the response to q if there is no answer. It has the rcode, and an explanation if
// err contains one.
func failure(q *Query, rcode int, err error) *dns.Msg {
	return failureUpTo(q, rcode, err, maxExtraText)
}

// failureUpTo is failure with another limit on the length of each text, in bytes.
func failureUpTo(q *Query, rcode int, err error, most int) *dns.Msg {
	m := &dns.Msg{MsgHdr: dns.MsgHdr{Rcode: rcode}}
	var extended *ExtendedError
	if errors.As(err, &extended) {
		options := []dns.EDNS0{extended.option(most)}
		if extended.First != nil {
			options = append(options, extended.First.option(most))
		}
		m.Extra = []dns.RR{newOPT(options...)}
	}
	return completeUpTo(q, m, most)
}

// why returns the Extended DNS Error for a query that was rejected with rcode: an invalid query
// type (RFC 9824 section 9), or one that is not supported here (RFC 8914 section 4.22). It returns
// nil if the rcode is enough.
func why(rcode int) error {
	switch rcode {
	case dns.RcodeFormatError:
		return &ExtendedError{Code: dns.ExtendedErrorCodeInvalidQueryType}
	case dns.RcodeRefused, dns.RcodeNotImplemented:
		return &ExtendedError{Code: dns.ExtendedErrorCodeNotSupported}
	}
	return nil
}

// complete turns the Handler's message into the response to q. m is not modified.
func complete(q *Query, m *dns.Msg) *dns.Msg { return completeUpTo(q, m, maxExtraText) }

// completeUpTo is complete with another limit on the length of each Extended DNS Error's text, in
// bytes.
func completeUpTo(q *Query, m *dns.Msg, most int) *dns.Msg {
	asked := q.Msg.IsEdns0()
	wantsAD := q.Msg.AuthenticatedData || asked != nil && asked.Do() // RFC 6840 section 5.8
	out := &dns.Msg{
		MsgHdr: dns.MsgHdr{
			Id:                 q.Msg.Id,
			Response:           true,
			Opcode:             q.Msg.Opcode,
			Authoritative:      m.Authoritative,
			Truncated:          m.Truncated,
			RecursionDesired:   q.Msg.RecursionDesired,
			RecursionAvailable: true,
			AuthenticatedData:  m.AuthenticatedData && wantsAD,
			CheckingDisabled:   q.Msg.CheckingDisabled,
			Rcode:              m.Rcode,
		},
		Question: q.Msg.Question,
		Answer:   m.Answer,
		Ns:       m.Ns,
		Extra:    slices.DeleteFunc(slices.Clone(m.Extra), hopByHop),
	}
	if asked == nil {
		if out.Rcode > 0xf {
			out.Rcode = dns.RcodeServerFailure // an extended rcode needs an OPT record
		}
		return out
	}
	opt := newOPT(explanations(m, most)...)
	if q.cookie != nil {
		opt.Option = append(opt.Option, q.cookie)
	}
	opt.SetDo(asked.Do())
	out.Extra = append(out.Extra, opt)
	return out
}

// hopByHop reports whether a record belongs to the connection to the upstream nameserver and not to
// the answer.
func hopByHop(rr dns.RR) bool {
	if rr == nil {
		return true
	}
	kind := rr.Header().Rrtype
	return kind == dns.TypeOPT || kind == dns.TypeTSIG
}

// explanations returns the Extended DNS Errors of a response. All other options concern only us and
// the sender.
func explanations(m *dns.Msg, most int) []dns.EDNS0 {
	opt := m.IsEdns0()
	if opt == nil {
		return nil
	}
	var options []dns.EDNS0
	for _, o := range opt.Option {
		if e, ok := o.(*dns.EDNS0_EDE); ok && len(options) < maxOptions {
			options = append(options, &dns.EDNS0_EDE{InfoCode: e.InfoCode, ExtraText: CutText(e.ExtraText, most)})
		}
	}
	return options
}

func newOPT(options ...dns.EDNS0) *dns.OPT {
	opt := &dns.OPT{Hdr: dns.RR_Header{Name: ".", Rrtype: dns.TypeOPT}, Option: options}
	opt.SetUDPSize(udpSize)
	return opt
}

// pack renders a message from complete into buf or a larger buffer, in at most limit bytes. To
// fit, it first drops the additional records, which a client can do without (RFC 2181 section 9),
// and then the records that do not fit, and sets TC. truncated reports that pack set TC because of
// the limit.
func pack(out *dns.Msg, limit int, buf []byte) (wire []byte, truncated bool, err error) {
	wire, err = dnswire.AppendPack(buf[:0], out)
	if errors.Is(err, dnswire.ErrTooLong) { // a Service with thousands of endpoints
		out.Compress = true
		wire, err = out.PackBuffer(buf)
	}
	if err != nil {
		return nil, false, fmt.Errorf("packing a response: %w", err)
	}
	if len(wire) <= limit {
		return wire, false, nil
	}
	last, opt := len(wire), out.IsEdns0()
	if opt != nil {
		last -= dns.Len(opt) // complete put it after all others
	}
	room, question := limit-(len(wire)-last), questionEnd(wire)
	if room < question {
		// The Extended DNS Errors leave no room. What remains fits into 512 bytes.
		opt.Option = nil
		out.Answer, out.Ns, out.Extra, out.Truncated = nil, nil, []dns.RR{opt}, true
		wire, err = dnswire.AppendPack(buf[:0], out)
		return wire, true, err
	}
	cut := dnswire.Fit(wire[:last], question, room)
	tail := wire[last:]
	wire = append(wire[:cut.End], tail...)
	cut.SetHeader(wire, opt != nil)
	return wire, cut.Truncated, nil
}

// Explain adds an Extended DNS Error (RFC 8914) to a Handler's response.
func Explain(m *dns.Msg, code uint16, text string) {
	opt := m.IsEdns0()
	if opt == nil {
		opt = newOPT()
		m.Extra = append(m.Extra, opt)
	}
	opt.Option = append(opt.Option, &dns.EDNS0_EDE{InfoCode: code, ExtraText: text})
}

// ExtendedError is an error that tells the client why there is no answer, as an Extended DNS Error
// (RFC 8914).
type ExtendedError struct {
	Code uint16 // INFO-CODE, RFC 8914 section 4; package dns defines constants
	Text string // EXTRA-TEXT for humans; may be empty; at most 128 bytes are sent
	Err  error  // the cause, for our own log; may be nil
	// First is the original failure if this one comes from the cache. The client gets both. It is
	// nil if unknown.
	First *ExtendedError
}

// Error returns the name of the code, the text and the cause.
func (e *ExtendedError) Error() string {
	parts := []string{fmt.Sprintf("EDE %d", e.Code)}
	if name, ok := dns.ExtendedErrorCodeToString[e.Code]; ok {
		parts[0] += " (" + name + ")"
	}
	if e.Text != "" {
		parts = append(parts, e.Text)
	}
	if e.Err != nil {
		parts = append(parts, e.Err.Error())
	}
	return strings.Join(parts, ": ")
}

// Unwrap returns Err.
func (e *ExtendedError) Unwrap() error { return e.Err }

// maxExtraText is the maximum length of EXTRA-TEXT. It keeps a response with the longest name, an
// OPT record, one Extended DNS Error and FailedBefore below the 512 bytes that every client
// accepts.
const maxExtraText = 128

// Option returns the EDNS option for the client, without First.
func (e *ExtendedError) Option() *dns.EDNS0_EDE { return e.option(maxExtraText) }

func (e *ExtendedError) option(most int) *dns.EDNS0_EDE {
	return &dns.EDNS0_EDE{InfoCode: e.Code, ExtraText: CutText(e.Text, most)}
}

// CutText returns s as valid UTF-8 (RFC 8914 section 2) of at most that many bytes. It cuts longer
// text after a whole word and appends an ellipsis.
func CutText(s string, most int) string {
	const ellipsis = " ..."
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= most {
		return s
	}
	end := most - len(ellipsis)
	for !utf8.RuneStart(s[end]) {
		end--
	}
	if word := strings.LastIndexByte(s[:end], ' '); word > most/2 {
		end = word
	}
	return s[:end] + ellipsis
}
