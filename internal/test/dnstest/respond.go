package dnstest

import (
	"net"

	"github.com/miekg/dns"
)

const (
	payload  = 1232 // size in our OPT record, from DNS flag day 2020
	maxChain = 16   // CNAME records to follow
)

// respond returns the right response: with AA and RA, complete CNAME chains, and EDNS if the query
// has it.
func (r *records) respond(query *dns.Msg) *dns.Msg {
	m := new(dns.Msg).SetReply(query)
	m.Authoritative, m.RecursionAvailable = true, true
	signed := false
	if opt := query.IsEdns0(); opt != nil {
		signed = opt.Do()
		m.SetEdns0(payload, signed)
		if opt.Version() != 0 {
			m.Rcode = dns.RcodeBadVers
			return m
		}
	}
	switch question := query.Question[0]; {
	case query.Opcode != dns.OpcodeQuery, dns.TypeTKEY <= question.Qtype && question.Qtype < dns.TypeANY:
		m.Rcode = dns.RcodeNotImplemented
	case question.Qclass != dns.ClassINET:
		m.Rcode = dns.RcodeRefused
	default:
		r.resolve(m, question, signed)
		m.AuthenticatedData = (signed || query.AuthenticatedData) && r.isSigned(m)
	}
	return m
}

// resolve fills in the sections. The RCODE is that of the last name of a chain (RFC 6604 section
// 3). A loop ends where it repeats.
func (r *records) resolve(m *dns.Msg, question dns.Question, signed bool) {
	name := question.Name
	for range maxChain {
		if redirect := r.redirect(name, signed); redirect != nil {
			m.Answer = append(m.Answer, redirect...)
			if question.Qtype == dns.TypeCNAME || question.Qtype == dns.TypeANY {
				return
			}
			name = target(redirect)
			continue
		}
		owner, found := r.source(name)
		if !found {
			m.Rcode = dns.RcodeNameError
			m.Ns = r.authority(name, signed)
			return
		}
		if rrs := r.pick(owner, name, question.Qtype, signed); rrs != nil {
			m.Answer = append(m.Answer, rrs...)
			return
		}
		alias := r.pick(owner, name, dns.TypeCNAME, signed)
		if alias == nil {
			m.Ns = r.authority(name, signed)
			return
		}
		m.Answer = append(m.Answer, alias...)
		name = target(alias)
	}
}

// redirect returns the DNAME record above a name and the CNAME record that it synthesizes for the
// name (RFC 6672 section 3.1), or nil if there is none or the new name is too long.
func (r *records) redirect(name string, signed bool) []dns.RR {
	for labels := dns.CountLabel(name) - 1; labels > 0; labels-- {
		at, _ := dns.PrevLabel(name, labels)
		above := r.pick(dns.CanonicalName(name[at:]), name[at:], dns.TypeDNAME, signed)
		for _, rr := range above {
			dname, ok := rr.(*dns.DNAME)
			if !ok {
				continue
			}
			made := name[:at] + dname.Target
			if _, fits := dns.IsDomainName(made); !fits {
				return nil
			}
			header := dns.RR_Header{Name: name, Rrtype: dns.TypeCNAME, Class: dns.ClassINET, Ttl: dname.Hdr.Ttl}
			return append(above, &dns.CNAME{Hdr: header, Target: made})
		}
	}
	return nil
}

func target(alias []dns.RR) string {
	for _, rr := range alias {
		if cname, ok := rr.(*dns.CNAME); ok {
			return cname.Target
		}
	}
	return "."
}

// isSigned reports whether the records have signatures for the answer. Then a validating nameserver
// sets AD for queries with DO or AD (RFC 6840 sections 5.7 and 5.8).
func (r *records) isSigned(m *dns.Msg) bool {
	for _, rr := range m.Answer {
		owner, _ := r.source(rr.Header().Name)
		rrtype := rr.Header().Rrtype
		if rrtype != dns.TypeRRSIG && len(r.pick(owner, owner, rrtype, true)) == len(r.pick(owner, owner, rrtype, false)) {
			return false
		}
	}
	return len(m.Answer) > 0
}

// forgedRR returns the forged answer, which no client should accept.
func forgedRR(question dns.Question) dns.RR {
	header := dns.RR_Header{Name: question.Name, Rrtype: question.Qtype, Class: dns.ClassINET, Ttl: defaultTTL}
	switch question.Qtype {
	case dns.TypeA:
		return &dns.A{Hdr: header, A: net.ParseIP(ForgedA)}
	case dns.TypeAAAA:
		return &dns.AAAA{Hdr: header, AAAA: net.ParseIP(ForgedAAAA)}
	}
	header.Rrtype = dns.TypeCNAME
	return &dns.CNAME{Hdr: header, Target: ForgedName}
}
