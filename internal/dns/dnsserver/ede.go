package dnsserver

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/miekg/dns"
)

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
func (e *ExtendedError) Option() *dns.EDNS0_EDE {
	return &dns.EDNS0_EDE{InfoCode: e.Code, ExtraText: cutText(e.Text)}
}

// cutText returns s as valid UTF-8 (RFC 8914 section 2) of at most maxExtraText bytes. It cuts
// longer text after a whole word and appends an ellipsis.
func cutText(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= maxExtraText {
		return s
	}
	end := maxExtraText - len(" ...")
	for !utf8.RuneStart(s[end]) {
		end--
	}
	if word := strings.LastIndexByte(s[:end], ' '); word > maxExtraText/2 {
		end = word
	}
	return s[:end] + " ..."
}
