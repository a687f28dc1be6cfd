package policy

import (
	"net/netip"
	"slices"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dnsmasqconf"
)

// LocalRecords are the records from hosts files and from address=, host-record, cname and other
// options of dnsmasq's configuration. They are immutable and safe for concurrent use. nil has no
// records.
type LocalRecords struct {
	names   map[dnsname.Name]*node
	exist   map[dnsname.Name]bool // names with records, and their parents
	domains map[dnsname.Name][]netip.Addr
	plain   []netip.Addr // for names with one label
	ttl     uint32
}

// node holds the records of one name. An alias has no others.
type node struct {
	alias   *dns.CNAME
	records []dns.RR
	isWhole bool // there is no address of the other family
}

// NewLocalRecords returns the records of a configuration. host is the target of MX records without
// one. If it is the zero Name, those are left out.
func NewLocalRecords(c dnsmasqconf.Config, host dnsname.Name) *LocalRecords {
	d := &LocalRecords{
		names: map[dnsname.Name]*node{}, exist: map[dnsname.Name]bool{}, domains: map[dnsname.Name][]netip.Addr{},
		ttl: uint32(max(c.Number("local-ttl"), 0)),
	}
	d.addRecords(c.PTRs)
	for _, h := range c.Hosts {
		d.addHost(h)
	}
	d.addRecords(c.Records)
	d.addMX(c.MXs, host)
	for _, a := range c.CNAMEs {
		d.at(a.Alias).alias = &dns.CNAME{Hdr: d.header(dns.TypeCNAME, a.TTL), Target: a.Target.String()}
	}
	for _, a := range c.Addresses {
		addrs := []netip.Addr{a.Addr}
		if !a.Addr.IsValid() {
			addrs = []netip.Addr{netip.IPv4Unspecified(), netip.IPv6Unspecified()}
		}
		if a.Plain {
			d.plain = append(d.plain, addrs...)
			continue
		}
		d.domains[a.Domain] = append(d.domains[a.Domain], addrs...)
	}
	return d
}

// IsEmpty reports whether there are no records.
func (d *LocalRecords) IsEmpty() bool {
	return d == nil || len(d.names) == 0 && len(d.domains) == 0 && len(d.plain) == 0
}

// header returns a header without the owner, which comes from the question. seconds may be Unset.
func (d *LocalRecords) header(rrtype uint16, seconds int) dns.RR_Header {
	ttl := d.ttl
	if seconds != dnsmasqconf.Unset {
		ttl = uint32(seconds)
	}
	return dns.RR_Header{Rrtype: rrtype, Class: dns.ClassINET, Ttl: ttl}
}

func (d *LocalRecords) at(name dnsname.Name) *node {
	n := d.names[name]
	if n == nil {
		n = &node{}
		d.names[name] = n
	}
	for above := name; !above.IsZero() && !above.IsRoot() && !d.exist[above]; above = above.Parent() {
		d.exist[above] = true
	}
	return n
}

func (d *LocalRecords) add(name dnsname.Name, rr dns.RR) {
	n := d.at(name)
	if !slices.ContainsFunc(n.records, func(have dns.RR) bool { return dns.IsDuplicate(have, rr) }) {
		n.records = append(n.records, rr)
	}
}

// addHost adds a host's addresses, and for each a PTR record to the first name, unless there is one
// already.
func (d *LocalRecords) addHost(h dnsmasqconf.Host) {
	for _, addr := range h.Addrs {
		for _, name := range h.Names {
			d.add(name, d.address(addr, h.TTL))
			d.names[name].isWhole = d.names[name].isWhole || h.Whole
		}
		if h.NoReverse {
			continue
		}
		back := dnsname.Reverse(addr)
		if n := d.names[back]; n == nil || len(n.records) == 0 {
			d.add(back, &dns.PTR{Hdr: d.header(dns.TypePTR, h.TTL), Ptr: h.Names[0].String()})
		}
	}
}

func (d *LocalRecords) addRecords(all []dnsmasqconf.Record) {
	for _, r := range all {
		rr := dns.Copy(r.RR)
		rr.Header().Ttl = d.ttl
		d.add(r.Name, rr)
	}
}

func (d *LocalRecords) address(addr netip.Addr, seconds int) dns.RR {
	if addr.Is4() {
		return &dns.A{Hdr: d.header(dns.TypeA, seconds), A: addr.AsSlice()}
	}
	return &dns.AAAA{Hdr: d.header(dns.TypeAAAA, seconds), AAAA: addr.AsSlice()}
}

func (d *LocalRecords) addMX(all []dnsmasqconf.MX, host dnsname.Name) {
	for _, m := range all {
		if m.Name.IsZero() {
			host = m.Target // mx-target
		}
	}
	for _, m := range all {
		if m.Target.IsZero() {
			m.Target = host
		}
		if !m.Name.IsZero() && !m.Target.IsZero() {
			d.add(m.Name, &dns.MX{Hdr: d.header(dns.TypeMX, dnsmasqconf.Unset), Mx: m.Target.String(), Preference: m.Preference})
		}
	}
}
