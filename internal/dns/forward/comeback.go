package forward

import (
	"errors"
	"net/netip"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnsserver"
)

// maxComebacks is how many questions in a row a server may ask us that we are asking it, without an answer to any of ours. It may
// be a client too, and ask for what another client asks for at the same time; but then it answers.
const maxComebacks = 8

// errComeback is of a question that is asked by the server that is asked it.
var errComeback = errors.New("the question came back")

// cameBack is called when a server asks what it is being asked, and reports whether that is refused: it would wait for itself. A
// server on this host is not told from other clients there by its address, and so is only looked at more closely. counted is the
// question's, which counts once.
func (f *Forward) cameBack(s *server, counted *bool) (isRefused bool) {
	f.counts.comebacks.Add(1)
	n := s.CameBack(*counted)
	*counted = true
	if n < maxComebacks {
		return false
	}
	f.suspect()
	return !f.isOwn(s.Addr.Addr())
}

// mayHaveComeBack is called when a question has no answer that n have waited for. One of them may be who was asked: where a
// question goes round by way of others, nothing but that shows.
func (f *Forward) mayHaveComeBack(n int) {
	if n > 1 {
		f.suspect()
	}
}

// at is the server at an address; nil: there is none.
func (r *route) at(addr netip.Addr) *server {
	for _, s := range r.servers {
		if s.Addr.Addr() == addr {
			return s
		}
	}
	return nil
}

// asker is the server that a query is from; nil: none, or the query has been looked at when it came, and has waited in a lane
// since.
func (r *route) asker(q *dnsserver.Query) *server {
	if q.Tried.IsLate() {
		return nil
	}
	return r.at(q.Client.Addr())
}

// comeback is the response to a question that came back.
func comeback(q *dnsserver.Query) *dns.Msg {
	m := new(dns.Msg).SetRcode(q.Msg, dns.RcodeRefused)
	m.Extra = []dns.RR{&dns.OPT{
		Hdr:    dns.RR_Header{Name: ".", Rrtype: dns.TypeOPT},
		Option: []dns.EDNS0{&dns.EDNS0_EDE{InfoCode: dns.ExtendedErrorCodeOther, ExtraText: "forwarding loop: you are being asked this"}},
	}}
	return m
}
