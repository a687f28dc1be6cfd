package zone

import "github.com/miekg/dns"

// lookup turns one question into an answer. Its methods are the rules. It is reused and allocates
// nothing once it is warm.
type lookup struct {
	question
	answer
	cfg      *settings
	snapshot *Snapshot
	from     *Snapshot     // the Snapshot with the Services: snapshot or its imports
	domain   *domain       // of the question; nil in a reverse zone
	scratch  [maxName]byte // for answer.target
	aimed    question      // answer.target as a name
	hosts    []uint16      // offset of each record's host in the message; 0 if a pointer cannot reach it
	wire     []byte        // a message
}

// resolve answers the question from the Snapshot.
func (l *lookup) resolve() {
	l.reset()
	l.ttl = l.cfg.ttl
	l.domain, l.from = nil, l.snapshot
	for i := range l.cfg.domains {
		if below, in := l.within(&l.cfg.domains[i]); in {
			l.domain, l.zoneAt = &l.cfg.domains[i], below
			l.inDomain(below)
			l.finish()
			return
		}
	}
	if set := l.cfg.clusterSet; set != nil && l.snapshot.imports != nil {
		if below, in := l.within(set); in {
			l.domain, l.zoneAt, l.from = set, below, l.snapshot.imports
			l.inClusterSet(below)
			l.finish()
			return
		}
	}
	l.reverse()
	l.finish()
}

// isImport reports whether the question is in Config.ClusterSet.
func (l *lookup) isImport() bool { return l.from != l.snapshot }

// inClusterSet answers for a name with k labels below Config.ClusterSet.
func (l *lookup) inClusterSet(k int) {
	switch {
	case k == 0:
		l.apex()
	case l.snapshot.noImports:
		l.verdict = unknown
	case string(l.label(k-1)) == "svc":
		l.sub = "svc"
		l.services(k - 1)
	case string(l.label(k-1)) == "dns":
		l.inDNS(k - 1)
	default:
		l.nxdomain()
	}
}

// finish does the steps that are the same for all names. The answer to ANY is a HINFO record (RFC
// 8482 section 4.2).
func (l *lookup) finish() {
	switch {
	case l.verdict != answered && l.verdict != chased:
		return
	case l.qtype == dns.TypeANY && l.rcode == dns.RcodeSuccess:
		l.verdict = answered
		l.records, l.extra = append(l.records[:0], record{rtype: dns.TypeHINFO}), l.extra[:0]
	case l.view != nil && l.view.repeats > 0:
		l.unique()
	}
	if l.hasZone() && len(l.records) > 1 && family(l.records[0].addr) == l.qtype {
		l.nearFirst()
	}
	if l.snapshot.stale {
		l.ttl = min(l.ttl, staleTTL)
	}
}

// hasZone reports whether the order of records depends on this node's zone.
func (l *lookup) hasZone() bool {
	return l.cfg.SameZoneFirst && l.snapshot.zone != "" && l.view != nil && l.view.svc.Kind == Headless
}

// staleTTL is in seconds (RFC 8767 section 4).
const staleTTL = 30

// inDomain answers for a name with k labels below the cluster domain.
func (l *lookup) inDomain(k int) {
	if k == 0 {
		l.apex()
		return
	}
	top := k - 1
	switch string(l.label(top)) {
	case "svc":
		l.sub = "svc"
		l.services(top)
	case "endpoints":
		if !l.cfg.isOpenShift {
			l.nxdomain()
			return
		}
		l.sub = "endpoints"
		l.services(top)
	case "pod":
		l.pods(top)
	case "dns":
		l.inDNS(top)
	case "dns-version":
		l.dnsVersion(top)
	default:
		l.nxdomain()
	}
}

// apex answers for the apex of a zone, the cluster domain or a reverse zone.
func (l *lookup) apex() {
	switch l.qtype {
	case dns.TypeSOA:
		l.ttl = l.cfg.negativeTTL
		l.records = append(l.records, record{rtype: dns.TypeSOA})
	case dns.TypeNS:
		l.records = append(l.records, record{rtype: dns.TypeNS})
		for _, addr := range l.cfg.Nameservers {
			l.addExtra(0, addr)
		}
	}
}

// inDNS answers for dns.DOMAIN and the names below it: that of the nameserver, as in CoreDNS, and
// with OpenShift the one that SkyDNS has for itself.
func (l *lookup) inDNS(k int) {
	switch {
	case k == 0: // an empty non-terminal
	case k == 1 && string(l.label(0)) == "ns":
		for _, addr := range l.cfg.Nameservers {
			l.addAddr(addr, l.qtype)
		}
	case k == 1 && l.cfg.isOpenShift && string(l.label(0)) == "local" && !l.isImport():
		l.sub = "svc"
		l.alias()
	default:
		l.nxdomain()
	}
}

// dnsVersion answers for dns-version.DOMAIN (section 2.2 of the Kubernetes specification).
func (l *lookup) dnsVersion(k int) {
	switch {
	case k > 0:
		l.nxdomain()
	case l.qtype == dns.TypeTXT:
		l.ttl = versionTTL
		l.records = append(l.records, record{rtype: dns.TypeTXT})
	}
}

const (
	version    = "1.1.0"
	versionTTL = 28800 // seconds, as in the specification's example
)

// keyOfKubernetes is the viewKey of the Service kubernetes. openshift.default.svc is another name
// for that Service.
const (
	keyOfKubernetes = "\x0akubernetes\x07default"
	keyOfOpenShift  = "\x09openshift\x07default"
)

// alias answers with the Service kubernetes, as SkyDNS does for its own names.
func (l *lookup) alias() {
	v := l.snapshot.services.get(keyOfKubernetes)
	if v == nil || v.svc == nil {
		l.nxdomain()
		return
	}
	l.service(v, 0)
}

// exposes reports whether names of the namespace are answered at all.
func (l *lookup) exposes(name []byte) bool {
	return l.cfg.namespaces == nil || l.cfg.namespaces[string(name)]
}

// exists reports whether the namespace exists for the purpose of names.
func (l *lookup) exists(name []byte) bool {
	return l.exposes(name) && l.snapshot.namespaces.find(name) != (namespace{})
}

// pods answers for names with k labels below pod.DOMAIN: A-B-C-D.NAMESPACE. SkyDNS has them only
// for IPv4 and does not check the namespace. Only if all Pods are known can the answer be that a
// Pod does not exist.
func (l *lookup) pods(k int) {
	if k == 0 {
		return // an empty non-terminal
	}
	name := l.label(k - 1)
	anywhere := l.cfg.isOpenShift && l.cfg.PodNames == PodsInsecure
	switch {
	case l.cfg.PodNames == PodsDisabled, k > 2, !l.exposes(name), !anywhere && !l.exists(name):
		l.nxdomain()
		return
	case k == 1:
		return // an empty non-terminal
	}
	addr := undash(l.label(0))
	switch {
	case !addr.IsValid(), addr.Is6() && l.cfg.isOpenShift:
		l.nxdomain()
	case l.cfg.PodNames == PodsVerified && l.snapshot.somePods:
		l.verdict = unknown
	case l.cfg.PodNames == PodsVerified && !l.snapshot.hasPod(addr, name):
		l.nxdomain()
	default:
		l.addAddr(addr, l.qtype)
	}
}
