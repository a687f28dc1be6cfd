package dnswire

import (
	"strconv"

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
