package zone

import "github.com/miekg/dns"

// answer writes record i of the answer section.
func (m *message) answer(i int) {
	r := &m.records[i]
	data := m.head(headerSize, r.rtype, m.ttl)
	switch r.rtype {
	case dns.TypeA, dns.TypeAAAA:
		m.writeAddr(r)
	case dns.TypeSRV:
		m.writeSRV(i)
	case dns.TypePTR:
		m.writeHost(r)
		m.out = append(m.out, r.view.key...)
		m.out = append(m.out, "\x03svc"...)
		if m.isImport() {
			m.out = append(m.out, m.cfg.clusterSet.wire...)
		} else {
			m.writeDomain()
		}
	case dns.TypeCNAME:
		m.out = append(m.out, m.target...)
	case dns.TypeNS:
		m.hosts[i] = uint16(m.at())
		m.out = append(m.out, "\x02ns\x03dns"...)
		m.writeDomain()
	case dns.TypeSOA:
		m.writeSOA()
	case dns.TypeTXT:
		m.out = appendLabel(m.out, version)
	case dns.TypeHINFO:
		m.out = append(appendLabel(m.out, "RFC8482"), 0)
	}
	m.length(data)
}

// writeAddr writes the data of an A or AAAA record.
func (m *message) writeAddr(r *record) {
	if r.rtype == dns.TypeA {
		octets := r.addr.As4()
		m.out = append(m.out, octets[:]...)
		return
	}
	octets := r.addr.As16()
	m.out = append(m.out, octets[:]...)
}

// writeSRV writes the data of an SRV record. Its target must not be compressed (RFC 2782), but
// later names may point to it.
func (m *message) writeSRV(i int) {
	r := &m.records[i]
	m.u16(m.cfg.priority)
	m.u16(uint16(max(100/m.shares, 1)))
	m.u16(r.port)
	if at := m.at(); at <= maxPointer {
		m.hosts[i] = uint16(at)
	}
	if m.view == nil {
		m.out = append(m.out, m.target...)
		return
	}
	m.writeHost(r)
	switch {
	case m.serviceAt == 0:
		m.serviceAt = m.at()
	case m.compress:
		m.u16(pointerBits | uint16(m.serviceAt))
		return
	}
	m.out = append(m.out, m.view.key...)
	m.out = appendLabel(m.out, m.sub)
	m.out = append(m.out, m.asked[m.labels[m.zoneAt]:]...)
}

// writeHost writes the labels of a host before the name of its Service.
func (m *message) writeHost(r *record) {
	switch r.form {
	case named:
		m.out = appendLabel(m.out, r.label)
	case dashed, hashed:
		size := len(m.out)
		m.out = append(m.out, 0)
		if r.form == dashed {
			m.out = appendDashed(m.out, r.addr)
		} else {
			m.out = appendHashed(m.out, r.addr)
		}
		m.out[size] = byte(len(m.out) - size - 1)
	}
	if r.from != nil {
		m.out = appendLabel(m.out, r.from.cluster)
	}
}

// writeDomain ends a name in record data with the cluster domain.
func (m *message) writeDomain() {
	if m.domainAt != 0 {
		m.u16(pointerBits | uint16(m.domainAt))
		return
	}
	m.domainAt = m.at()
	m.out = append(m.out, m.cfg.domains[0].wire...)
}

// writeSOA writes the data of an SOA record.
func (m *message) writeSOA() {
	zone := pointerBits | uint16(m.zonePointer())
	m.out = append(m.out, "\x02ns\x03dns"...)
	m.u16(zone)
	m.out = append(m.out, "\x0ahostmaster"...)
	m.u16(zone)
	m.u32(m.snapshot.serial)
	m.u32(m.cfg.soa.refresh)
	m.u32(m.cfg.soa.retry)
	m.u32(m.cfg.soa.expire)
	m.u32(m.cfg.negativeTTL)
}
