package dnswire

import (
	"strconv"
	"strings"

	"github.com/miekg/dns"
)

// TypeText returns a record type in presentation format: its mnemonic, or TYPE123 (RFC 3597 section
// 5). It uses TYPE0 and TYPE65535 for the types that only miekg/dns calls "None" and "Reserved".
func TypeText(t uint16) string {
	if t == dns.TypeNone || t == dns.TypeReserved {
		return "TYPE" + strconv.Itoa(int(t))
	}
	return dns.Type(t).String()
}

// RcodeText returns the name of a response code, or RCODE123 if it has none.
func RcodeText(rcode int) string {
	if name, ok := dns.RcodeToString[rcode]; ok {
		return name
	}
	return "RCODE" + strconv.Itoa(rcode)
}

// ParseType parses a record type in presentation format, in any case.
func ParseType(text string) (t uint16, ok bool) {
	text = strings.ToUpper(text)
	if t, ok = dns.StringToType[text]; ok && t != dns.TypeNone && t != dns.TypeReserved {
		return t, true
	}
	digits, ok := strings.CutPrefix(text, "TYPE")
	if !ok || digits == "" || digits[0] == '+' {
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 10, 16)
	return uint16(n), err == nil
}
