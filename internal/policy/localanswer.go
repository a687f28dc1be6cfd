package policy

import (
	"bytes"
	"net/netip"
	"slices"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
)

// maxAliases bounds the aliases in one answer. dnsmasqconf removes loops.
const maxAliases = 100

// Answer returns the local records for a question about name, and false if there are none, so that
// the query continues. It follows an alias as far as the local records go. The addresses of a
// domain count if that has at least least labels: a longer domain has its own route. If some
// addresses of a name are in near, only those are returned (dnsmasq's localise-queries). The zero
// Prefix returns all. A name that is known to have no addresses gets an empty answer. The caller
// owns the records.
func (d *LocalRecords) Answer(question dns.Question, name dnsname.Name, least int, near netip.Prefix) (answer []dns.RR, ok bool) {
	if d.IsEmpty() || name.IsZero() {
		return nil, false
	}
	owner, qtype := question.Name, question.Qtype
	isWhole := false
	for range maxAliases {
		n := d.names[name]
		if n == nil {
			break
		}
		if n.alias == nil {
			answer = appendRecords(answer, nearest(n.records, near), owner, qtype)
			isWhole = n.isWhole && (qtype == dns.TypeA || qtype == dns.TypeAAAA)
			break
		}
		answer = append(answer, owned(n.alias, owner))
		target, err := dnsname.Parse(n.alias.Target)
		if qtype == dns.TypeCNAME || err != nil {
			break
		}
		owner, name = n.alias.Target, target
	}
	if len(answer) == 0 && !isWhole {
		answer = d.ofDomain(name, owner, qtype, least)
	}
	return answer, len(answer) > 0 || isWhole
}

// Has reports whether the name itself has a record.
func (d *LocalRecords) Has(name dnsname.Name) bool { return d != nil && d.names[name] != nil }

// nearest removes the IPv4 addresses outside near, unless all are outside.
func nearest(records []dns.RR, near netip.Prefix) []dns.RR {
	if !near.IsValid() {
		return records
	}
	address := func(rr dns.RR) (addr netip.Addr, ok bool) {
		a, ok := rr.(*dns.A)
		if ok {
			addr, _ = netip.AddrFromSlice(a.A)
		}
		return addr.Unmap(), ok
	}
	isNear := func(rr dns.RR) bool { addr, ok := address(rr); return ok && near.Contains(addr) }
	if !slices.ContainsFunc(records, isNear) {
		return records
	}
	isFar := func(rr dns.RR) bool { addr, ok := address(rr); return ok && !near.Contains(addr) }
	return slices.DeleteFunc(slices.Clone(records), isFar)
}

// ofDomain returns the addresses of the longest matching domain.
func (d *LocalRecords) ofDomain(name dnsname.Name, owner string, qtype uint16, least int) []dns.RR {
	for zone := name; !zone.IsZero() && zone.Labels() >= least; zone = zone.Parent() {
		addrs := d.domains[zone]
		if zone.IsRoot() && name.Labels() == 1 && len(d.plain) > 0 {
			addrs = d.plain
		}
		var records []dns.RR
		for _, addr := range addrs {
			records = append(records, d.address(addr, int(d.ttl)))
		}
		if answer := appendRecords(nil, records, owner, qtype); len(answer) > 0 {
			return answer
		}
	}
	return nil
}

// Exists reports whether there is local data for a name or a name below it. The answer is then not
// NXDOMAIN, whatever upstreams say.
func (d *LocalRecords) Exists(name dnsname.Name) bool {
	if d.IsEmpty() || name.IsZero() {
		return false
	}
	if d.exist[name] || len(d.plain) > 0 && name.Labels() == 1 {
		return true
	}
	for zone := name; !zone.IsZero(); zone = zone.Parent() {
		if len(d.domains[zone]) > 0 {
			return true
		}
	}
	return false
}

// Concerns reports whether Answer or Exists may have a result for a name. text must be that of a
// dnsname.Name. It does not allocate.
func (d *LocalRecords) Concerns(text []byte) bool {
	if d.IsEmpty() {
		return false
	}
	_, known := dnsname.Lookup(d.exist, text)
	isPlain := bytes.IndexByte(text, '.') == len(text)-1 // or the root
	if known || isPlain && (len(d.plain) > 0 || len(text) == 1) {
		return true
	}
	for len(d.domains) > 0 && len(text) > 0 {
		if _, known := dnsname.Lookup(d.domains, text); known {
			return true
		}
		text = text[bytes.IndexByte(text, '.')+1:]
	}
	return len(d.domains[dnsname.Root()]) > 0
}

// Knows reports whether there is local data for the zone itself or below it.
func (d *LocalRecords) Knows(zone dnsname.Name) bool {
	if d.IsEmpty() {
		return false
	}
	if d.exist[zone] {
		return true
	}
	for domain := range d.domains {
		if domain.Within(zone) {
			return true
		}
	}
	return false
}

func appendRecords(answer, records []dns.RR, owner string, qtype uint16) []dns.RR {
	for _, rr := range records {
		if qtype == rr.Header().Rrtype || qtype == dns.TypeANY {
			answer = append(answer, owned(rr, owner))
		}
	}
	return answer
}

func owned(rr dns.RR, owner string) dns.RR {
	rr = dns.Copy(rr)
	rr.Header().Name = owner
	return rr
}
