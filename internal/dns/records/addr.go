package records

import (
	"net/netip"

	"github.com/miekg/dns"
)

// Addr returns the address in an A or AAAA record, and false for other records. An IPv4-mapped
// address is returned as IPv4.
func Addr(rr dns.RR) (netip.Addr, bool) {
	var octets []byte
	switch rr := rr.(type) {
	case *dns.A:
		octets = rr.A
	case *dns.AAAA:
		octets = rr.AAAA
	}
	addr, ok := netip.AddrFromSlice(octets)
	return addr.Unmap(), ok
}
