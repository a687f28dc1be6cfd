package dnstest

import (
	"slices"

	"github.com/miekg/dns"
)

// spoil makes the bad response from the right one. It returns false if no fault applies to this
// query.
func (o order) spoil(query, right *dns.Msg, udp bool) (*dns.Msg, bool) {
	edns := query.IsEdns0() != nil
	if rcode := o.refusal(); rcode != 0 && edns {
		return o.refuse(query, rcode), true
	}
	bad := right.Copy()
	spoilt := o.Garbage || o.Empty || udp && (o.CutUDP || o.WrongSource)
	if rcode := o.Rcode; rcode != 0 && (rcode <= 0xf || edns) {
		bad.Rcode, bad.Answer, bad.Ns, bad.Extra = rcode, nil, nil, onlyOPT(bad.Extra)
		spoilt = true
	}
	if o.forges(udp) {
		o.forge(bad)
		spoilt = true
	}
	if o.NoSOA {
		bad.Ns = slices.DeleteFunc(bad.Ns, func(rr dns.RR) bool { return rr.Header().Rrtype == dns.TypeSOA })
		spoilt = true
	}
	if len(o.answer)+len(o.authority)+len(o.additional) > 0 {
		bad.Answer = append(bad.Answer, o.answer...)
		bad.Ns = append(bad.Ns, o.authority...)
		bad.Extra = append(slices.Clone(o.additional), bad.Extra...)
		spoilt = true
	}
	if o.Truncate && udp {
		bad.Truncated, bad.Answer, bad.Ns, bad.Extra = true, nil, nil, onlyOPT(bad.Extra)
		spoilt = true
	}
	return bad, spoilt
}

func (o order) refusal() int {
	switch {
	case o.FormErrOnEDNS:
		return dns.RcodeFormatError
	case o.NotImpOnEDNS:
		return dns.RcodeNotImplemented
	case o.BadVersOnEDNS:
		return dns.RcodeBadVers
	}
	return 0
}

func (o order) refuse(query *dns.Msg, rcode int) *dns.Msg {
	bad := new(dns.Msg).SetRcode(query, rcode)
	if rcode == dns.RcodeBadVers {
		bad.SetEdns0(payload, false)
	}
	if o.NoQuestion {
		bad.Question = nil
	}
	return bad
}

// forges ignores NoQuestion if a refusal is set: then it only shapes the refusal, and a query
// without EDNS gets an answer.
func (o order) forges(udp bool) bool {
	return o.WrongID || o.WrongQuestion || o.WrongType || o.NoQuestion && o.refusal() == 0 || o.WrongSource && udp
}

// forge changes the question and replaces the true answer with the forged one.
func (o order) forge(bad *dns.Msg) {
	question := &bad.Question[0]
	if o.WrongQuestion {
		question.Name = otherName(question.Name)
	}
	if o.WrongType {
		question.Qtype = otherType(question.Qtype)
	}
	if o.Rcode == 0 {
		bad.Rcode, bad.Answer, bad.Ns, bad.Extra = dns.RcodeSuccess, []dns.RR{forgedRR(*question)}, nil, onlyOPT(bad.Extra)
	}
	if o.NoQuestion && o.refusal() == 0 {
		bad.Question = nil
	}
}

// otherName returns a name of the same length that differs in its first byte, so that only a
// comparison of the bytes finds it.
func otherName(name string) string {
	switch name[0] {
	case '.', '\\', '*':
		return ForgedName
	case 'x', 'X':
		return "y" + name[1:]
	}
	return "x" + name[1:]
}

func otherType(qtype uint16) uint16 {
	if qtype == dns.TypeA {
		return dns.TypeAAAA
	}
	return dns.TypeA
}

func onlyOPT(extra []dns.RR) []dns.RR {
	return slices.DeleteFunc(slices.Clone(extra), func(rr dns.RR) bool { return rr.Header().Rrtype != dns.TypeOPT })
}
