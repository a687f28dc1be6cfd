package zone

import (
	"net/netip"
	"strings"

	"github.com/miekg/dns"
)

// endpoints answers for the ready endpoints of a Service, with k labels before its name.
func (l *lookup) endpoints(v *view, k int) {
	l.view = v
	var pick selection
	if l.cfg.isOpenShift {
		pick.ports.kind = noPort
	}
	switch {
	case k == 0, l.cfg.isOpenShift && string(l.label(k-1)) == "_endpoints":
	case l.cfg.Zonal && !l.isImport() && v.svc.Kind == Headless && string(l.label(k-1)) == "_zone":
		l.zonal(v, pick, k-1)
		return
	case l.ofPort(k):
		pick.ports = l.ports(k)
	case k == 1 && l.isImport() && l.hasCluster(v, l.label(0)): // NODATA
		return
	case k == 2 && l.isImport():
		pick.host, pick.cluster = newHostFilter(l.label(0), false), l.label(1)
	case k == 1 || l.cfg.isOpenShift:
		pick.host = newHostFilter(l.label(k-1), l.cfg.isOpenShift)
	default:
		l.nxdomain()
		return
	}
	l.pick(v, pick)
}

// pick answers with the selected endpoints. If there are none, the name does not exist (section
// 2.4.1 of the Kubernetes specification). With SkyDNS, the name of a Service and every host below
// it always exist.
func (l *lookup) pick(v *view, pick selection) {
	found := l.add(v, &pick)
	switch {
	case found && l.isBetween(pick.ports):
		l.drop()
	case found:
	case !l.cfg.isOpenShift, pick.ports.kind != noPort && !pick.ports.any(v.svc.Ports):
		l.nxdomain()
	}
}

// zonal answers for names with k labels below _zone. ZONE.pin has the endpoints in the zone.
// ZONE.prefer has all endpoints if none is in the zone. So a zone without endpoints is no reason
// for NXDOMAIN (CoreDNS's pull request 8388).
func (l *lookup) zonal(v *view, pick selection, k int) {
	directive := ""
	if k > 0 {
		directive = string(l.label(k - 1))
	}
	switch {
	case k > 2, k > 0 && directive != "pin" && directive != "prefer":
		l.nxdomain()
	case k == 2:
		all := pick
		pick.zone = l.label(0)
		if !l.has(v, pick) && l.has(v, all) { // all are in other zones
			if directive == "pin" {
				return
			}
			pick = all
		}
		l.pick(v, pick)
	case !l.has(v, pick): // otherwise it is an empty non-terminal
		l.nxdomain()
	}
}

// has reports whether the selection has an endpoint.
func (l *lookup) has(v *view, pick selection) bool {
	defer l.drop()
	return l.add(v, &pick)
}

// isEmpty reports whether the Service has no ready endpoint.
func (l *lookup) isEmpty(v *view) bool {
	for _, s := range v.slices {
		for c := s.endpoints(); c.next(); {
			if v.isReady(&c) {
				return false
			}
		}
	}
	return true
}

// selection is the endpoints, and their ports, that a name stands for. The zero value selects all.
type selection struct {
	host hostFilter
	zone []byte // in lower case; nil means any

	cluster []byte // the cluster of the host, for a ServiceImport
	ports   portFilter
}

// maxRecords bounds the records of an answer: four times what the largest message holds. A user who
// may create a Service could otherwise make one query cost gigabytes: its SRV records are the
// product of its ports and endpoints.
const maxRecords = 1 << 14

// add adds the records of the selected ready endpoints, up to maxRecords. It visits at most
// maxWalked endpoints and ports, because ports may have no record. It reports whether there is any
// endpoint, of either address family.
func (l *lookup) add(v *view, pick *selection) (found bool) {
	zoned, walked := l.hasZone(), 0
	for _, s := range v.slices {
		if pick.ports.kind > noPort && !pick.ports.any(s.ports) || pick.host.label != nil && l.isImport() && s.cluster != string(pick.cluster) {
			continue
		}
		for c := s.endpoints(); c.next(); {
			if walked++; walked > maxWalked || len(l.records) >= maxRecords {
				return found
			}
			if !v.isReady(&c) || pick.zone != nil && !foldEqual(c.Zone, pick.zone) ||
				pick.host.label != nil && !pick.host.matches(l.hostOf(&c)) {
				continue
			}
			found = true
			if l.qtype == dns.TypeSRV {
				walked += len(s.ports)
				l.addPorts(s, &c, &pick.ports)
			} else if family(c.Addr) == l.qtype {
				l.records = append(l.records, record{rtype: l.qtype, addr: c.Addr, near: zoned && c.Zone == l.snapshot.zone})
			}
		}
	}
	return found
}

// addPorts adds the SRV records of an endpoint, one per port.
func (l *lookup) addPorts(s *slice, c *cursor, ports *portFilter) {
	target := l.hostOf(c)
	if target.from = l.importedFrom(s); l.isTooLong(target, l.view) {
		return
	}
	if ports.kind == noPort {
		l.addExtra(l.addSRV(target), c.Addr)
		return
	}
	before := l.shares
	for _, p := range s.ports {
		if !ports.matches(p) || p.Number == 0 || len(l.records) >= maxRecords {
			continue
		}
		target.port = p.Number
		if i := l.addSRV(target); l.shares == before+1 {
			l.addExtra(i, c.Addr)
		}
	}
	if len(s.ports) == 0 {
		l.shares++
	}
}

// isTooLong reports whether the name of an imported host would be too long: it has one more label
// than names in the cluster.
func (l *lookup) isTooLong(r record, v *view) bool {
	if r.from == nil {
		return false
	}
	host := len(r.label)
	if r.form != named {
		host = maxAddrText
	}
	return 1+host+1+len(r.from.cluster)+len(v.key)+len("\x03svc")+len(l.cfg.clusterSet.wire) > maxName
}

// hasCluster reports whether the cluster has ready endpoints, whose names are below its own (RFC
// 8020).
func (l *lookup) hasCluster(v *view, cluster []byte) bool {
	for _, s := range v.slices {
		for c := s.endpoints(); s.cluster == string(cluster) && c.next(); {
			if v.isReady(&c) {
				return true
			}
		}
	}
	return false
}

// importedFrom returns the slice if the names of its endpoints include its cluster, or nil.
func (l *lookup) importedFrom(s *slice) *slice {
	if l.isImport() && s.cluster != "" {
		return s
	}
	return nil
}

// hostOf returns a record with the name of an endpoint below its Service.
func (l *lookup) hostOf(c *cursor) record {
	switch {
	case c.Hostname != "":
		return record{form: named, label: c.Hostname}
	case l.cfg.EndpointPodNames && isLabel(c.Pod):
		return record{form: named, label: c.Pod}
	case l.cfg.isOpenShift:
		return record{form: hashed, addr: c.Addr}
	}
	return record{form: dashed, addr: c.Addr}
}

// hostFilter selects endpoints by the label before the Service name. With OpenShift an endpoint
// without a hostname has two names: that of SkyDNS and that of CoreDNS.
type hostFilter struct {
	label  []byte     // nil selects all endpoints
	addr   netip.Addr // the address in a dashed label
	hash   uint32
	isHash bool
}

func newHostFilter(label []byte, hashes bool) hostFilter {
	f := hostFilter{label: label, addr: undash(label)}
	if hashes {
		f.hash, f.isHash = unhash(label)
	}
	return f
}

func (f *hostFilter) matches(r record) bool {
	if r.form == named {
		return r.label == string(f.label)
	}
	return r.addr == f.addr || f.isHash && hash(r.addr) == f.hash
}

// foldEqual reports whether text equals label, ignoring case; label is in lower case.
func foldEqual(text string, label []byte) bool {
	return len(text) == len(label) && strings.EqualFold(text, string(label))
}
