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

// Filter says which queries a watcher wants to see. The zero Filter lets all pass.
type Filter struct {
	client  netip.Prefix // zero: everyone's
	name    string       // a pattern in lower case; "": every name
	qtype   uint16       // 0: every type
	rcode   int
	byRcode bool
	pod     func(netip.Addr) bool // whether a client is a pod that is meant; nil: every client is
}

// NewFilter reads what the queries must have; "" stands for anything. client is an address or a network; name is a name, which
// stands for those below it too, or one in which * stands for any characters; qtype and rcode are names or numbers. The error
// says which is none.
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
		n, ok := number(dns.StringToType, qtype, "TYPE", 16)
		if !ok || n == 0 {
			return f, fmt.Errorf("type %q: expected a type such as %s", qtype, likely(qtype, dns.StringToType, "AAAA or TYPE65"))
		}
		f.qtype = uint16(n)
	}
	if rcode != "" {
		n, ok := number(dns.StringToRcode, rcode, "RCODE", 12)
		if !ok {
			return f, fmt.Errorf("rcode %q: expected a response code such as %s", rcode, likely(rcode, dns.StringToRcode, "NXDOMAIN"))
		}
		f.rcode, f.byRcode = int(n), true
	}
	return f, nil
}

// likely is the name that a word is likely a typo of, or else an example.
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

// pattern is a name as the names of queries are written: in lower case and with a dot at the end.
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

// number is what a word stands for: by its name, or by its number behind that prefix or alone.
func number[N uint16 | int](names map[string]N, word, prefix string, bits int) (N, bool) {
	word = strings.ToUpper(word)
	if n, ok := names[word]; ok {
		return n, true
	}
	n, err := strconv.ParseUint(strings.TrimPrefix(word, prefix), 10, bits)
	return N(n), err == nil
}

// matches reports whether the watcher wants to see a query. It allocates nothing, but for a name that no host has.
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

// glob reports whether a text is what a pattern says, in which each * stands for any characters.
func glob(pattern string, text []byte) bool {
	at, star, again := 0, -1, 0
	for i := 0; i < len(text); {
		switch {
		case at < len(pattern) && pattern[at] == '*':
			star, again, at = at, i, at+1
		case at < len(pattern) && pattern[at] == text[i]:
			at, i = at+1, i+1
		case star >= 0: // the last star takes one more
			again++
			at, i = star+1, again
		default:
			return false
		}
	}
	return strings.Trim(pattern[at:], "*") == ""
}

// question is the first one of a query: the octets of its name, and its type; nil: there is none that can be read.
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

// presentation is a name as master files write it: what is no printable ASCII is escaped (RFC 1035 section 5.1).
func presentation(name []byte) string {
	text, _, err := dns.UnpackDomainName(name, 0)
	if err != nil {
		return ""
	}
	return text
}

// Question are the octets of the qname; nil: there is none.
func seenQuestion(seen *dnsserver.Seen) []byte {
	name, _ := question(seen.Query)
	return name
}

// seenName is the qname as master files write it, with what is no printable ASCII escaped; "": there is none.
func seenName(seen *dnsserver.Seen) string {
	name, _ := question(seen.Query)
	return presentation(name)
}

// seenType is the qtype; "": there is none.
func seenType(seen *dnsserver.Seen) string {
	name, qtype := question(seen.Query)
	if name == nil {
		return ""
	}
	return dnswire.TypeText(qtype)
}

// seenRcode is that of the response, with the bits of an OPT record that the server's own has (BADVERS); false: none was sent.
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
