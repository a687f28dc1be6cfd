package zone

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/miekg/dns"
)

// verdict is the outcome of a question.
type verdict uint8

const (
	answered verdict = iota
	foreign          // the name is not in the cluster
	chased           // there is a CNAME, and its target is resolved elsewhere
	unknown          // the answer needs all Pods, or the ServiceImports, which the Snapshot does not have
)

// answer is the answer to a question. reset prepares it for reuse. It refers to the Snapshot and to
// the question.
type answer struct {
	verdict verdict
	rcode   int
	ttl     uint32
	zoneAt  int      // index of the label in the question where the zone begins
	records []record // answer section; if empty, the authority section has an SOA record
	extra   []record // addresses of the hosts in records
	view    *view    // the Service of the SRV records, in the subdomain sub
	sub     string
	target  []byte // of the CNAME record, or of SRV records without a view; in wire format
	shares  int    // number of SRV records, counting equal ones separately
	ordered bool   // the first record is the best and stays first
	near    int    // number of records in this node's zone, which come first; 0 means no preference

	seen    map[target]int32 // index of each SRV record, if there are many
	hasSeen bool             // seen belongs to this answer
}

// target identifies SRV records that must not occur twice in an answer.
type target struct {
	label, cluster string
	addr           netip.Addr
	port           uint16
}

// record is a resource record. In the answer section its owner is the name in the question; in
// other sections, the host of a record in the answer section.
type record struct {
	rtype uint16
	port  uint16     // of SRV
	form  hostForm   // of SRV and PTR
	near  bool       // of A and AAAA: in this node's zone
	of    int32      // in the additional section: index of the SRV or NS record
	addr  netip.Addr // of A and AAAA; of a host with a dashed or hashed name
	label string     // of a host with a name of its own
	from  *slice     // the slice of an imported host, whose name includes the cluster; nil for other hosts
	view  *view      // of PTR: the Service
}

// cluster returns the label after that of the host, or "" if there is none.
func (r *record) cluster() string {
	if r.from == nil {
		return ""
	}
	return r.from.cluster
}

// hostForm is how a host is named below its Service.
type hostForm uint8

const (
	itself hostForm = iota // the Service itself
	named                  // by its hostname or pod
	dashed                 // by its address, as in CoreDNS
	hashed                 // by FNV-1a of its address, as in SkyDNS
)

func (a *answer) reset() {
	a.verdict, a.rcode, a.ttl, a.zoneAt = answered, dns.RcodeSuccess, 0, 0
	a.view, a.sub, a.target, a.ordered, a.near = nil, "", nil, false, 0
	a.drop()
}

// drop removes all records.
func (a *answer) drop() {
	a.records, a.extra, a.shares, a.hasSeen = a.records[:0], a.extra[:0], 0, false
}

// nxdomain sets the answer for a name that does not exist.
func (a *answer) nxdomain() { a.rcode = dns.RcodeNameError }

// family returns the type of the address record of addr, or 0 if it is not an address.
func family(addr netip.Addr) uint16 {
	switch {
	case addr.Is4():
		return dns.TypeA
	case addr.Is6():
		return dns.TypeAAAA
	}
	return 0
}

// addAddr adds the address if the question asks for its family.
func (a *answer) addAddr(addr netip.Addr, qtype uint16) {
	if family(addr) == qtype {
		a.records = append(a.records, record{rtype: qtype, addr: addr})
	}
}

// turning returns the number of records that rotate. The others follow them.
func (a *answer) turning() int {
	switch {
	case a.ordered:
		return 0
	case a.near > 0:
		return a.near
	}
	return len(a.records)
}

// nearFirst moves the records of this node's zone to the front.
func (a *answer) nearFirst() {
	for i := range a.records {
		if a.records[i].near {
			a.records[a.near], a.records[i] = a.records[i], a.records[a.near]
			a.near++
		}
	}
}

// addExtra adds an address for the host of record i.
func (a *answer) addExtra(i int, addr netip.Addr) {
	if rtype := family(addr); rtype != 0 {
		a.extra = append(a.extra, record{rtype: rtype, of: int32(i), addr: addr})
	}
}

// addSRV adds an SRV record, unless an equal one exists, and returns its index.
func (a *answer) addSRV(r record) int {
	a.shares++
	n := len(a.records)
	if a.view != nil && (r.form <= named || a.view.repeats > 0) {
		if i := a.find(r); i >= 0 {
			return i
		}
	}
	r.rtype = dns.TypeSRV
	a.records = append(a.records, r)
	return n
}

// few is the number of records up to which linear search is used.
const few = 16

// find returns the index of a record equal to r, or -1; in that case, the caller adds r. The map
// for many records is kept for the next question.
func (a *answer) find(r record) int {
	if len(a.records) < few {
		for i := range a.records {
			if other := &a.records[i]; other.port == r.port && other.label == r.label && other.same() == r.same() {
				return i
			}
		}
		return -1
	}
	if !a.hasSeen {
		if a.seen == nil {
			a.seen = map[target]int32{}
		}
		clear(a.seen)
		for i := range a.records {
			a.seen[a.records[i].same()] = int32(i)
		}
		a.hasSeen = true
	}
	if i, found := a.seen[r.same()]; found {
		return int(i)
	}
	a.seen[r.same()] = int32(len(a.records))
	return -1
}

// same returns the identity of a record. A host with a name is a single host, regardless of its
// address.
func (r *record) same() target {
	t := target{label: r.label, cluster: r.cluster(), port: r.port}
	if r.form != named {
		t.addr = r.addr
	}
	return t
}

// unique removes duplicate addresses.
func (a *answer) unique() {
	if len(a.records) > 0 && a.records[0].rtype != dns.TypeSRV {
		compact(&a.records, func(r, s record) int { return r.addr.Compare(s.addr) })
	}
	compact(&a.extra, func(r, s record) int {
		of, other := &a.records[r.of], &a.records[s.of]
		return cmp.Or(cmp.Compare(of.label, other.label), cmp.Compare(of.cluster(), other.cluster()), of.addr.Compare(other.addr), r.addr.Compare(s.addr))
	})
}

func compact(section *[]record, compare func(r, s record) int) {
	slices.SortFunc(*section, compare)
	*section = slices.CompactFunc(*section, func(r, s record) bool { return compare(r, s) == 0 })
}
