package zone

import (
	"net/netip"
	"strconv"
)

// maxAddrText is the length of the longest IPv6 address as text, plus the 0 that appendDashed may
// add.
const maxAddrText = 40

// appendDashed appends the name that CoreDNS gives an endpoint with this address: 172-30-2-3,
// fd00-1--61. No name may end in a dash, so fd00:1:: is fd00-1--0.
func appendDashed(text []byte, addr netip.Addr) []byte {
	from := len(text)
	text = addr.AppendTo(text)
	for i := from; i < len(text); i++ {
		if text[i] == '.' || text[i] == ':' {
			text[i] = '-'
		}
	}
	if text[len(text)-1] == '-' {
		text = append(text, '0')
	}
	return text
}

// undash is the inverse of appendDashed. It returns the zero Addr if label is not an address. It
// accepts any form of IPv6 address.
func undash(label []byte) netip.Addr {
	if addr, ok := undash4(label); ok {
		return addr
	}
	var text [maxAddrText]byte
	if len(label) >= len(text) || len(label) < 3 {
		return netip.Addr{}
	}
	dashes := 0
	for i, c := range label {
		switch {
		case c == '-':
			c = ':'
			dashes++
		case !isHexDigit(c):
			return netip.Addr{}
		}
		text[i] = c
	}
	if dashes < 2 {
		return netip.Addr{}
	}
	addr, _ := netip.ParseAddr(string(text[:len(label)]))
	return addr
}

// undash4 parses four decimal numbers from 0 to 255 without leading zeros.
func undash4(label []byte) (netip.Addr, bool) {
	var octets [4]byte
	at, value, digits := 0, 0, 0
	for i := 0; i <= len(label); i++ {
		if i == len(label) || label[i] == '-' {
			if digits == 0 || at == len(octets) {
				return netip.Addr{}, false
			}
			octets[at] = byte(value)
			at, value, digits = at+1, 0, 0
			continue
		}
		c := label[i]
		if c < '0' || c > '9' || digits > 0 && value == 0 {
			return netip.Addr{}, false
		}
		value, digits = 10*value+int(c-'0'), digits+1
		if value > 255 {
			return netip.Addr{}, false
		}
	}
	return netip.AddrFrom4(octets), at == len(octets)
}

func isHexDigit(c byte) bool { return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' }

// hash returns FNV-1a of an address as text: getHash in openshift/origin v3.11.0
// pkg/dns/serviceresolver.go.
func hash(addr netip.Addr) uint32 {
	var text [maxAddrText]byte
	return fnv(addr.AppendTo(text[:0]))
}

// appendHashed appends the name that SkyDNS gives an endpoint with this address: its hash in
// hexadecimal without leading zeros.
func appendHashed(text []byte, addr netip.Addr) []byte {
	return strconv.AppendUint(text, uint64(hash(addr)), 16)
}

// unhash parses the output of appendHashed.
func unhash(label []byte) (hash uint32, ok bool) {
	if len(label) == 0 || len(label) > 8 || label[0] == '0' && len(label) > 1 {
		return 0, false
	}
	for _, c := range label {
		switch {
		case '0' <= c && c <= '9':
			hash = hash<<4 | uint32(c-'0')
		case 'a' <= c && c <= 'f':
			hash = hash<<4 | uint32(c-'a'+10)
		default:
			return 0, false
		}
	}
	return hash, true
}
