package zone

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/miekg/dns"
)

// verdict is what becomes of a question.
type verdict uint8

const (
	answered verdict = iota
	foreign          // the name is not the cluster's
	chased           // there is a CNAME, and the answer goes on at its target
	unknown          // it needs all Pods, or the ServiceImports, and the Snapshot does not have them
)

// answer is what the rules say to a question. It is reused: reset sets it anew. It refers to the Snapshot and to the
// question.
type answer struct {
	verdict verdict
	rcode   int
	ttl     uint32
	zoneAt  int      // the label of the question at which the zone begins
	records []record // of the answer section; none, and there is a SOA record in the authority section
	extra   []record // addresses of the hosts that records name
	view    *view    // what SRV records are of, in the subdomain sub
	sub     string
	target  []byte // of the CNAME record, and of SRV records that are of no view: in wire format
	shares  int    // how many SRV records there would be if those that say the same were apart
	ordered bool   // the first record is the best
	near    int    // how many records are of this node's zone, and come first; 0: all are alike

	seen    map[target]int32 // index of each of many SRV records
	hasSeen bool             // of this answer
}

// target is what must not be twice among the SRV records of an answer.
type target struct {
	label, cluster string
	addr           netip.Addr
	port           uint16
}

// record is a resource record. Those of the answer section belong to the question's name, the others to the host of a
// record in it.
type record struct {
	rtype uint16
	port  uint16     // of SRV
	form  hostForm   // of SRV and PTR
	near  bool       // of A and AAAA: it is in this node's zone
	of    int32      // of the additional section: the index of the SRV or NS record
	addr  netip.Addr // of A and AAAA; of a host that is dashed or hashed
	label string     // of a host that is named
	from  *slice     // of an imported host: its cluster follows it; nil: none does
	view  *view      // of PTR: the Service
}

// cluster is the label that follows that of the host; "": none does.
func (r *record) cluster() string {
	if r.from == nil {
		return ""
	}
	return r.from.cluster
}

// hostForm is how the host of a record is named below its Service.
type hostForm uint8

const (
	itself hostForm = iota // it is the Service
	named                  // by a hostname, or after a pod
	dashed                 // after the address, as CoreDNS does
	hashed                 // by FNV-1a of the address, as SkyDNS does
)

func (a *answer) reset() {
	a.verdict, a.rcode, a.ttl, a.zoneAt = answered, dns.RcodeSuccess, 0, 0
	a.view, a.sub, a.target, a.ordered, a.near = nil, "", nil, false, 0
	a.drop()
}

// drop forgets the records.
func (a *answer) drop() {
	a.records, a.extra, a.shares, a.hasSeen = a.records[:0], a.extra[:0], 0, false
}

// nxdomain is the answer for a name that does not exist.
func (a *answer) nxdomain() { a.rcode = dns.RcodeNameError }

// family returns the type of the address record of addr, 0 when it is no address.
func family(addr netip.Addr) uint16 {
	switch {
	case addr.Is4():
		return dns.TypeA
	case addr.Is6():
		return dns.TypeAAAA
	}
	return 0
}

// addAddr adds the address when it is of the family that is asked for.
func (a *answer) addAddr(addr netip.Addr, qtype uint16) {
	if family(addr) == qtype {
		a.records = append(a.records, record{rtype: qtype, addr: addr})
	}
}

// turning is how many records take turns at being the first. The others follow them.
func (a *answer) turning() int {
	switch {
	case a.ordered:
		return 0
	case a.near > 0:
		return a.near
	}
	return len(a.records)
}

// nearFirst puts the records of this node's zone before the others.
func (a *answer) nearFirst() {
	for i := range a.records {
		if a.records[i].near {
			a.records[a.near], a.records[i] = a.records[i], a.records[a.near]
			a.near++
		}
	}
}

// addExtra adds an address of the host of record i.
func (a *answer) addExtra(i int, addr netip.Addr) {
	if rtype := family(addr); rtype != 0 {
		a.extra = append(a.extra, record{rtype: rtype, of: int32(i), addr: addr})
	}
}

// addSRV adds a SRV record unless there is the same, and returns the index of the one that there is then.
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

// few is up to how many records are compared one with the other.
const few = 16

// find returns the index of the record that says what r does, else -1, after which r is added. The map of many records
// is kept for the next question.
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

// same has no address for a host with a name: that is one host, at all its addresses.
func (r *record) same() target {
	t := target{label: r.label, cluster: r.cluster(), port: r.port}
	if r.form != named {
		t.addr = r.addr
	}
	return t
}

// unique takes out addresses that are there twice.
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
