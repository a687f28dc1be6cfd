package zone

import (
	"net/netip"

	"github.com/miekg/dns"
)

// services answers for names with k labels below svc.DOMAIN and endpoints.DOMAIN.
func (l *lookup) services(k int) {
	if k == 0 {
		return // an empty non-terminal, as namespaces are
	}
	namespace := l.label(k - 1)
	switch {
	case !l.exposes(namespace):
		l.nxdomain()
		return
	case k == 1:
		if !l.exists(namespace) {
			l.nxdomain()
		}
		return
	}
	key := l.span(k-2, k)
	v := l.from.services.find(key)
	switch {
	case v != nil && v.svc != nil:
		l.service(v, k-2)
	case l.cfg.isOpenShift && k == 2 && string(key) == keyOfOpenShift && !l.isImport():
		l.alias()
	default:
		l.nxdomain()
	}
}

// service answers for the name of a Service with k labels before it.
func (l *lookup) service(v *view, k int) {
	l.view = v
	all := l.sub == "endpoints" || l.cfg.isOpenShift && k > 0 && string(l.label(k-1)) == "_endpoints"
	switch {
	case v.svc.Kind == ClusterIP && l.sub == "svc" && l.cfg.IgnoreEmptyService && l.isEmpty(v):
		l.nxdomain()
	case v.svc.Kind == ExternalName && all:
		l.nxdomain()
	case v.svc.Kind == ExternalName:
		l.external(v.svc, k)
	case v.svc.Kind == Headless || all:
		l.endpoints(v, k)
	default:
		l.clusterIP(v, k)
	}
}

// clusterIP answers for a Service with ClusterIPs. With OpenShift, every name below it has the same
// answer.
func (l *lookup) clusterIP(v *view, k int) {
	var ports portFilter
	switch {
	case l.ofPort(k):
		ports = l.ports(k)
		if !ports.any(v.svc.Ports) {
			l.nxdomain()
			return
		}
	case l.cfg.isOpenShift:
		ports.kind = noPort
	case k == 1, k == 2 && l.isImport():
		l.endpoints(v, k)
		return
	case k > 1:
		l.nxdomain()
		return
	}
	if l.isBetween(ports) {
		return
	}
	for _, addr := range v.svc.ClusterIPs {
		if l.qtype == dns.TypeSRV {
			l.clusterIPPorts(v, addr, ports)
		} else {
			l.addAddr(addr, l.qtype)
		}
	}
}

// clusterIPPorts adds the SRV records of a ClusterIP. The target is the Service, as in the
// specification. SkyDNS has one target per address.
func (l *lookup) clusterIPPorts(v *view, addr netip.Addr, ports portFilter) {
	target := record{form: itself}
	if l.cfg.isOpenShift {
		target = record{form: hashed, addr: addr}
	}
	first := -1
	add := func(port uint16) {
		target.port = port
		if i := l.addSRV(target); first < 0 {
			first = i
			l.addExtra(i, addr)
		}
	}
	if ports.kind == noPort {
		add(0)
		return
	}
	for _, p := range v.svc.Ports {
		if ports.matches(p) {
			add(p.Number)
		}
	}
}

// external answers for an ExternalName service. Its name has a CNAME record and therefore no other
// records (RFC 1034 section 3.6.2). With OpenShift the same holds for names below it. Names of its
// ports have SRV records.
func (l *lookup) external(svc *Service, k int) {
	literal, err := netip.ParseAddr(svc.ExternalName)
	isName := err != nil
	switch {
	case !isName && !l.cfg.isOpenShift, isName && !l.aim(svc.ExternalName):
		l.nxdomain()
	case l.ofPort(k):
		l.externalPorts(svc, l.ports(k), isName)
	case k > 0 && !l.cfg.isOpenShift:
		l.nxdomain()
	case isName:
		l.records = append(l.records, record{rtype: dns.TypeCNAME})
		if l.qtype != dns.TypeCNAME {
			l.verdict = chased
		}
	default:
		l.addAddr(literal.Unmap(), l.qtype)
	}
}

func (l *lookup) externalPorts(svc *Service, ports portFilter, isName bool) {
	switch {
	case !ports.any(svc.Ports):
		l.nxdomain()
		return
	case l.isBetween(ports) || !isName || l.qtype != dns.TypeSRV:
		return
	}
	l.view = nil
	for _, p := range svc.Ports {
		if ports.matches(p) {
			l.addSRV(record{port: p.Number})
		}
	}
	l.addTargetAddrs()
}

// addTargetAddrs adds the addresses of the Service that is the target of the SRV records, if it is
// one: the data of the target's A and AAAA records.
func (l *lookup) addTargetAddrs() {
	if len(l.records) == 0 || l.aimed.read(l.target) == 0 {
		return
	}
	for i := range l.cfg.domains {
		k, in := l.aimed.within(&l.cfg.domains[i])
		if in && k == 3 && string(l.aimed.label(2)) == "svc" && l.exposes(l.aimed.label(1)) {
			if v := l.snapshot.services.find(l.aimed.span(0, 2)); v != nil && v.svc != nil {
				l.addAddrsOf(v)
			}
			return
		}
	}
}

// addAddrsOf adds the addresses of a Service to record 0. An ExternalName service has none, even if
// slices remain from its earlier kind.
func (l *lookup) addAddrsOf(v *view) {
	switch v.svc.Kind {
	case ClusterIP:
		if l.cfg.IgnoreEmptyService && l.isEmpty(v) {
			return
		}
		for _, addr := range v.svc.ClusterIPs {
			l.addExtra(0, addr)
		}
	case Headless:
		for _, s := range v.slices {
			for c := s.endpoints(); len(l.extra) < maxRecords && c.next(); {
				if v.isReady(&c) {
					l.addExtra(0, c.Addr)
				}
			}
		}
		if v.repeats > 0 {
			l.unique()
		}
	}
}

// aim sets the target of the records. It returns false if name is invalid.
func (l *lookup) aim(name string) bool {
	end, err := dns.PackDomainName(dns.Fqdn(name), l.scratch[:], 0, nil, false)
	if err != nil || name == "" {
		return false
	}
	l.target = l.scratch[:end]
	return true
}
