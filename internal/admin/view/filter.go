package view

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/dns/dnswire"
	"github.com/node-dns/node-dns/internal/nodeconfig"
)

// Filter selects the queries for a watcher. The zero Filter matches all queries.
type Filter struct {
	client  netip.Prefix // zero for all clients
	name    string       // lower-case pattern; empty for all names
	qtype   uint16       // 0 for all types
	rcode   int
	byRcode bool
	pod     func(netip.Addr) bool // reports whether a client is a matching pod; nil matches all clients
}

// NewFilter parses the conditions. An empty one matches everything. client is an address or a
// network. name is a name, which also matches everything below it, or a pattern in which * stands
// for any characters. qtype and rcode are names or numbers. The error names the invalid value.
func NewFilter(client, name, qtype, rcode string) (f Filter, err error) {
	if client != "" {
		if f.client, err = prefix(client); err != nil {
			return f, fmt.Errorf("client %q: expected an address or a network", client)
		}
	}
	if f.name, err = pattern(name); err != nil {
		return f, err
	}
	if qtype != "" {
		n, ok := codeOf(dns.StringToType, qtype, "TYPE", 16)
		if !ok || n == 0 {
			return f, fmt.Errorf("type %q: expected a type such as %s", qtype, likely(qtype, dns.StringToType, "AAAA or TYPE65"))
		}
		f.qtype = uint16(n)
	}
	if rcode != "" {
		n, ok := codeOf(dns.StringToRcode, rcode, "RCODE", 12)
		if !ok {
			return f, fmt.Errorf("rcode %q: expected a response code such as %s", rcode, likely(rcode, dns.StringToRcode, "NXDOMAIN"))
		}
		f.rcode, f.byRcode = int(n), true
	}
	return f, nil
}

// likely returns the name that word is probably a typo of, or example.
func likely[N any](word string, names map[string]N, example string) string {
	return cmp.Or(nodeconfig.Likely(word, slices.Sorted(maps.Keys(names))), example)
}

func prefix(text string) (netip.Prefix, error) {
	if addr, err := netip.ParseAddr(text); err == nil {
		addr = addr.Unmap().WithZone("")
		return netip.PrefixFrom(addr, addr.BitLen()), nil
	}
	p, err := netip.ParsePrefix(text)
	return p.Masked(), err
}

// pattern returns name in the form of query names: lower case with a dot at the end.
func pattern(name string) (string, error) {
	if name == "" {
		return "", nil
	}
	name = strings.ToLower(name)
	if !strings.HasSuffix(name, ".") && !strings.HasSuffix(name, "*") {
		name += "."
	}
	if _, ok := dns.IsDomainName(strings.ReplaceAll(name, "*", "x")); !ok {
		return "", fmt.Errorf("name %q: expected a name, in which * may stand for any characters", name)
	}
	return name, nil
}

// codeOf looks word up in names, or parses it as a number with or without prefix.
func codeOf[N uint16 | int](names map[string]N, word, prefix string, bits int) (N, bool) {
	word = strings.ToUpper(word)
	if n, ok := names[word]; ok {
		return n, true
	}
	n, err := strconv.ParseUint(strings.TrimPrefix(word, prefix), 10, bits)
	return N(n), err == nil
}

// matches reports whether a query is selected. It allocates memory only for names that are not
// valid host names.
func (f *Filter) matches(seen *dnsserver.Seen) bool {
	client := seen.Client.Addr().Unmap().WithZone("")
	if f.client.IsValid() && !f.client.Contains(client) || f.pod != nil && !f.pod(client) {
		return false
	}
	if rcode, _ := seenRcode(seen); f.byRcode && rcode != f.rcode {
		return false
	}
	if f.qtype == 0 && f.name == "" {
		return true
	}
	name, qtype := question(seen.Query)
	return (f.qtype == 0 || f.qtype == qtype) && (f.name == "" || f.matchesName(name))
}

func (f *Filter) matchesName(name []byte) bool {
	if len(name) == 0 {
		return false
	}
	var room [dnswire.MaxName]byte
	text, ok := dnswire.AppendText(room[:0], name)
	if !ok {
		text = []byte(strings.ToLower(presentation(name)))
	}
	if strings.Contains(f.name, "*") {
		return glob(f.name, text)
	}
	above, ok := bytes.CutSuffix(text, []byte(f.name))
	return ok && (len(above) == 0 || above[len(above)-1] == '.' || f.name == ".")
}

// glob reports whether text matches pattern, in which each * stands for any characters.
func glob(pattern string, text []byte) bool {
	at, star, again := 0, -1, 0
	for i := 0; i < len(text); {
		switch {
		case at < len(pattern) && pattern[at] == '*':
			star, again, at = at, i, at+1
		case at < len(pattern) && pattern[at] == text[i]:
			at, i = at+1, i+1
		case star >= 0: // the last star matches one more character
			again++
			at, i = star+1, again
		default:
			return false
		}
	}
	return strings.Trim(pattern[at:], "*") == ""
}

// question returns the wire format of a query's first name, and its type. The name is nil if it is
// not readable.
func question(query []byte) (name []byte, qtype uint16) {
	if len(query) < dnswire.HeaderSize || binary.BigEndian.Uint16(query[4:]) == 0 {
		return nil, 0
	}
	for at := dnswire.HeaderSize; at < len(query) && query[at] < 0xc0 && at-dnswire.HeaderSize < dnswire.MaxName; at += 1 + int(query[at]) {
		if query[at] == 0 && at+3 <= len(query) {
			return query[dnswire.HeaderSize : at+1], binary.BigEndian.Uint16(query[at+1:])
		}
	}
	return nil, 0
}

// presentation returns name in master file format, with everything but printable ASCII escaped (RFC
// 1035 section 5.1).
func presentation(name []byte) string {
	text, _, err := dns.UnpackDomainName(name, 0)
	if err != nil {
		return ""
	}
	return text
}

// seenQuestion returns the wire format of the qname, or nil if there is none.
func seenQuestion(seen *dnsserver.Seen) []byte {
	name, _ := question(seen.Query)
	return name
}

// seenName returns the qname in master file format, with everything but printable ASCII escaped. It
// is empty if there is none.
func seenName(seen *dnsserver.Seen) string {
	name, _ := question(seen.Query)
	return presentation(name)
}

// seenType returns the qtype, or "" if there is none.
func seenType(seen *dnsserver.Seen) string {
	name, qtype := question(seen.Query)
	if name == nil {
		return ""
	}
	return dnswire.TypeText(qtype)
}

// seenRcode returns the rcode of the response. For the server's own responses it includes the bits
// in the OPT record (BADVERS). ok is false if no response was sent.
func seenRcode(seen *dnsserver.Seen) (rcode int, ok bool) {
	m := seen.Response
	if len(m) < dnswire.HeaderSize {
		return -1, false
	}
	rcode = int(m[3] & 0xf)
	if seen.Outcome != dnsserver.ByServer || binary.BigEndian.Uint16(m[10:]) == 0 {
		return rcode, true
	}
	at := dnswire.HeaderSize
	if name, _ := question(m); name != nil {
		at += len(name) + 4
	}
	for at < len(m) {
		data, end := dnswire.Find(m, at)
		if end == 0 {
			break
		}
		if binary.BigEndian.Uint16(m[data-10:]) == dns.TypeOPT {
			return rcode | int(m[data-6])<<4, true
		}
		at = end
	}
	return rcode, true
}
