package dnstest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/miekg/dns"
)

const defaultTTL = 300

// records are the records of a server by owner name in lower case. They are immutable.
type records struct {
	byOwner map[string][]dns.RR
	exists  map[string]bool // owner names and all their ancestors (RFC 8020: empty non-terminals exist)
}

func parseRecords(text string) (*records, error) {
	rrs, err := parseRRs(text)
	if err != nil {
		return nil, err
	}
	r := &records{byOwner: map[string][]dns.RR{}, exists: map[string]bool{".": true}}
	for _, rr := range rrs {
		owner := dns.CanonicalName(rr.Header().Name)
		r.byOwner[owner] = append(r.byOwner[owner], rr)
		for name := owner; name != "."; name = parent(name) {
			r.exists[name] = true
		}
	}
	return r, nil
}

func parseRRs(text string) ([]dns.RR, error) {
	var rrs []dns.RR
	parser := dns.NewZoneParser(strings.NewReader(dedent(text)), ".", "")
	parser.SetDefaultTTL(defaultTTL)
	for rr, ok := parser.Next(); ok; rr, ok = parser.Next() {
		if rr.Header().Class != dns.ClassINET {
			return nil, fmt.Errorf("reading records: %s is not of class IN", rr)
		}
		received, err := asReceived(rr)
		if err != nil {
			return nil, fmt.Errorf("reading records: %s cannot be sent: %w", rr, err)
		}
		rrs = append(rrs, received)
	}
	if err := parser.Err(); err != nil {
		return nil, fmt.Errorf("reading records: %w", err)
	}
	return rrs, nil
}

// asReceived returns a record as a client parses it. A zone file has several forms of a byte,
// such as "\032" and "\ ", but a parsed message has only one. So names and data can be compared as
// text.
func asReceived(rr dns.RR) (dns.RR, error) {
	const slack = 256
	wire := make([]byte, dns.Len(rr)+slack)
	end, err := dns.PackRR(rr, wire, 0, nil, false)
	if err != nil {
		return nil, err
	}
	received, _, err := dns.UnpackRR(wire[:end], 0)
	return received, err
}

// receivedName returns a name as received. It returns an invalid name unchanged; it matches
// nothing.
func receivedName(name string) string {
	var wire [256]byte
	if _, err := dns.PackDomainName(dns.Fqdn(name), wire[:], 0, nil, false); err != nil {
		return name
	}
	received, _, err := dns.UnpackDomainName(wire[:], 0)
	if err != nil {
		return name
	}
	return received
}

func canonicalName(name string) string { return dns.CanonicalName(receivedName(name)) }

// dedent removes common indentation: in a zone file, a blank in the first column means the owner of
// the previous line, but text in a test is indented.
func dedent(text string) string {
	lines := strings.Split(text, "\n")
	shared, found := "", false
	for _, line := range lines {
		blank := line[:len(line)-len(strings.TrimLeft(line, " \t"))]
		switch {
		case strings.TrimSpace(line) == "":
		case !found:
			shared, found = blank, true
		default:
			for !strings.HasPrefix(blank, shared) {
				shared = shared[:len(shared)-1]
			}
		}
	}
	for i, line := range lines {
		lines[i] = strings.TrimPrefix(line, shared)
	}
	return strings.Join(lines, "\n")
}

func parent(name string) string {
	next, end := dns.NextLabel(name, 0)
	if end {
		return "."
	}
	return name[next:]
}

// source returns the owner whose records answer for name: name itself, or the wildcard below its
// closest encloser (RFC 4592 section 3.3.1). It returns false if the name does not exist.
func (r *records) source(name string) (string, bool) {
	name = dns.CanonicalName(name)
	if r.exists[name] {
		return name, true
	}
	for !r.exists[name] {
		name = parent(name)
	}
	wildcard := "*." + name
	if name == "." {
		wildcard = "*."
	}
	return wildcard, r.exists[wildcard]
}

// pick returns copies of owner's records of one type, with name as their owner in its original
// case, and their signatures if signed is set.
func (r *records) pick(owner, name string, qtype uint16, signed bool) []dns.RR {
	var rrs []dns.RR
	for _, rr := range r.byOwner[owner] {
		rrtype := rr.Header().Rrtype
		signature, _ := rr.(*dns.RRSIG)
		if rrtype == qtype || qtype == dns.TypeANY || signed && signature != nil && signature.TypeCovered == qtype {
			rr = dns.Copy(rr)
			rr.Header().Name = name
			rrs = append(rrs, rr)
		}
	}
	if !slices.ContainsFunc(rrs, func(rr dns.RR) bool { return qtype == dns.TypeRRSIG || rr.Header().Rrtype != dns.TypeRRSIG }) {
		return nil // signatures over nothing
	}
	return rrs
}

// authority returns the SOA record of the zone that contains name. Without one in the records it
// returns that of the root, which allows negative caching for 60 s.
func (r *records) authority(name string, signed bool) []dns.RR {
	for zone := dns.CanonicalName(name); ; zone = parent(zone) {
		if soa := r.pick(zone, zone, dns.TypeSOA, signed); soa != nil {
			return soa
		}
		if zone == "." {
			return []dns.RR{rootSOA()}
		}
	}
}

func rootSOA() dns.RR {
	const negativeTTL = 60
	return &dns.SOA{
		Hdr: dns.RR_Header{Name: ".", Rrtype: dns.TypeSOA, Class: dns.ClassINET, Ttl: negativeTTL},
		Ns:  "ns.invalid.", Mbox: "hostmaster.invalid.", Serial: 1, Refresh: 3600, Retry: 600, Expire: 86400, Minttl: negativeTTL,
	}
}
