package dnswire

import (
	"strconv"
	"strings"

	"github.com/miekg/dns"
)

// TypeText is a type of records in presentation form: its mnemonic, or TYPE123 (RFC 3597 section 5), also for 0 and 65535, of which
// miekg/dns says "None" and "Reserved", as nothing else that reads or writes types does.
func TypeText(t uint16) string {
	if t == dns.TypeNone || t == dns.TypeReserved {
		return "TYPE" + strconv.Itoa(int(t))
	}
	return dns.Type(t).String()
}

// ParseType reads a type of records in presentation form, in any letters' case.
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
