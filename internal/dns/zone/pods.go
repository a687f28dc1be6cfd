package zone

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
