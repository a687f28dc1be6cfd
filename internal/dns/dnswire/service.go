package dnswire

import (
	"encoding/hex"
	"net/netip"

	"github.com/miekg/dns"
)

// ServiceTarget returns the target of an SVCB or HTTPS record (RFC 9460 section 2.5) that Unpack
// parsed, or "" for other records.
func ServiceTarget(rr dns.RR) string {
	target, _ := service(rr, 2+MaxName)
	return target
}

// ServiceHints returns the addresses in ipv4hint and ipv6hint of an SVCB or HTTPS record (RFC 9460
// section 7.3) that Unpack parsed. It returns nil for other records and if there are no hints.
func ServiceHints(rr dns.RR) (hints []netip.Addr) {
	const ipv4hint, ipv6hint = 4, 6
	_, params := service(rr, dns.MaxMsgSize)
	for len(params) >= 4 {
		key, size, step := count(params, 0), count(params, 2), 0
		if params = params[4:]; size > len(params) {
			return hints
		}
		switch key {
		case ipv4hint:
			step = 4
		case ipv6hint:
			step = 16
		}
		for at := 0; step > 0 && at+step <= size; at += step {
			addr, _ := netip.AddrFromSlice(params[at : at+step])
			hints = append(hints, addr)
		}
		params = params[size:]
	}
	return hints
}

// service returns the target of an SVCB or HTTPS record and the parameters in the first bytes of
// its RDATA. target is "" for other records.
func service(rr dns.RR, octets int) (target string, params []byte) {
	raw, ok := rr.(*dns.RFC3597)
	if h := rr.Header(); !ok || h.Rrtype != dns.TypeSVCB && h.Rrtype != dns.TypeHTTPS {
		return "", nil
	}
	data, err := hex.DecodeString(raw.Rdata[:min(len(raw.Rdata), 2*octets)])
	if err != nil || len(data) < 2 {
		return "", nil
	}
	target, at, err := dns.UnpackDomainName(data, 2)
	if err != nil {
		return "", nil
	}
	return target, data[at:]
}
