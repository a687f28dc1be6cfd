package resolve

import (
	"context"
	"net/netip"
	"sync/atomic"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/dnsserver"
)

// searchFunc returns the search list that a client's resolver goes through: the kubelet's for a pod, in order. Nil means
// that it is not known; then nothing is done for the client. It is called concurrently.
type searchFunc func(client netip.Addr) []dnsname.Name

// autopath walks a pod's search list on the node: a query for google.com.shop.svc.cluster.local is answered with
// a CNAME to google.com and its addresses, where the pod would have asked for google.com.svc.cluster.local,
// google.com.cluster.local and google.com after it, each for A and AAAA (kubernetes issue 33554). It asks for one name after the other,
// as the pod's resolver library would, and counts. Its zero value is ready. It is safe for concurrent use.
type autopath struct {
	answered, saved atomic.Uint64
}

// Walked are counts of walks through search lists since the start.
type Walked struct {
	Answered uint64 // queries answered with a name further on in the search list
	Saved    uint64 // queries that their clients did not have to send for it
}

// stats returns the counts.
func (a *autopath) stats() Walked {
	return Walked{Answered: a.answered.Load(), Saved: a.saved.Load()}
}

// serve answers q with what next says. Only a name below the first domain of the client's search list is walked on
// from, and only where it does not exist: what follows is then what the client would ask for next.
//
// Where the walk is not sure of what the client would make of a name on its way, the client gets the answer to what it
// asked, that there is no such name, and goes on by itself: it finds what it finds without us. Resolver libraries part
// there: glibc goes past a name that has other records and past a server's failure, musl ends at both.
func (a *autopath) serve(ctx context.Context, q *dnsserver.Query, next dnsserver.Handler, search searchFunc) (*dns.Msg, error) {
	first, err := next.ServeDNS(ctx, q)
	if err != nil || first == nil || !isAbsent(first) {
		return first, err
	}
	name, domains := beginning(q, search)
	if name == "" {
		return first, nil
	}
	for i, candidate := range candidates(name, domains) {
		step := renamed(q, candidate)
		m, verdict := judge(ctx, step, next)
		switch verdict {
		case found:
			a.answered.Add(1)
			a.saved.Add(uint64(i) + 1)
			q.AnsweredBy, q.Origin, q.Cached, q.Stale, q.Age = step.AnsweredBy, step.Origin, step.Cached, step.Stale, step.Age
			return aliased(q, candidate, m), nil
		case unsure:
			return first, nil
		}
	}
	return first, nil
}

// beginning returns the name that the client looks for, and what is left of its search list; "" when q is none of a walk.
func beginning(q *dnsserver.Query, list searchFunc) (string, []dnsname.Name) {
	question := q.Msg.Question[0]
	if question.Qclass != dns.ClassINET || question.Qtype != dns.TypeA && question.Qtype != dns.TypeAAAA || q.Name.IsZero() {
		return "", nil
	}
	search := list(q.Client.Addr().Unmap())
	if len(search) < 2 || search[0].IsRoot() || q.Name == search[0] || !q.Name.Within(search[0]) {
		return "", nil
	}
	// A dnsname.Name has no escapes, so that text and name are of the same length, whatever the letters' case.
	return question.Name[:len(question.Name)-len(search[0].String())], search[1:]
}

// candidates are the names that follow, the name itself last. name ends in a dot.
func candidates(name string, search []dnsname.Name) []string {
	var list []string
	for _, domain := range search {
		if !domain.IsRoot() && len(name)+len(domain.String()) <= maxName {
			list = append(list, name+domain.String())
		}
	}
	return append(list, name)
}

// maxName is the length of the longest name in text, its last dot included: RFC 1035 section 3.1 has 255 octets, of which
// the first label's length and the root are not in the text.
const maxName = 254

// step is what a name on the way is to the walk.
type step int

const (
	absent step = iota // the walk goes on
	found              // it is the one
	unsure
)

// judge asks for q. A name is the one when there is an answer for either family, as in getaddrinfo(3): A and AAAA are
// answered from one decision. To decide each alone mixed the families of two hosts (coredns issue 2842). A failure is no
// absence: who goes on past one answers with the wrong host when a server is down for a moment (coredns issue 3765).
func judge(ctx context.Context, q *dnsserver.Query, next dnsserver.Handler) (*dns.Msg, step) {
	m, err := next.ServeDNS(ctx, q)
	switch {
	case err != nil || m == nil || m.Rcode != dns.RcodeSuccess && !isAbsent(m):
		return nil, unsure
	case hasAnswer(m):
		return m, found
	case isAbsent(m) && q.Msg.Question[0].Qtype == dns.TypeA:
		return nil, absent
	}
	// Some servers deny the name itself when they are asked for AAAA (RFC 4074 section 4.2).
	other, err := next.ServeDNS(ctx, otherFamily(q))
	switch {
	case err != nil || other == nil:
		return nil, unsure
	case isAbsent(m) && isAbsent(other):
		return nil, absent
	case !isAbsent(m) && hasAnswer(other):
		return m, found
	}
	return nil, unsure
}

func isAbsent(m *dns.Msg) bool { return m.Rcode == dns.RcodeNameError }

// hasAnswer counts an alias that leads to no address: resolver libraries end their search there.
func hasAnswer(m *dns.Msg) bool { return m.Rcode == dns.RcodeSuccess && len(m.Answer) > 0 }

func renamed(q *dnsserver.Query, name string) *dnsserver.Query {
	return reasked(q, dns.Question{Name: name, Qtype: q.Msg.Question[0].Qtype, Qclass: dns.ClassINET})
}

func otherFamily(q *dnsserver.Query) *dnsserver.Query {
	question := q.Msg.Question[0]
	question.Qtype = dns.TypeA + dns.TypeAAAA - question.Qtype
	return reasked(q, question)
}

// reasked is q with another question. The message of a Query is read-only, and may be kept.
func reasked(q *dnsserver.Query, question dns.Question) *dnsserver.Query {
	m := *q.Msg
	m.Question = []dns.Question{question}
	name, _ := dnsname.Parse(question.Name) // of the labels of two Names; the zero Name when they are too long together
	return &dnsserver.Query{Msg: &m, Name: name, Client: q.Client, Local: q.Local, Proto: q.Proto, Inquiry: q.Inquiry}
}

// aliased is the answer to q: that name, of which m speaks, is what it looked for.
func aliased(q *dnsserver.Query, name string, m *dns.Msg) *dns.Msg {
	out := *m
	out.Authoritative, out.AuthenticatedData = true, false // the alias is ours, and nobody signed it
	out.Answer = append([]dns.RR{&dns.CNAME{
		Hdr:    dns.RR_Header{Name: q.Msg.Question[0].Name, Rrtype: dns.TypeCNAME, Class: dns.ClassINET, Ttl: shortest(m)},
		Target: name,
	}}, m.Answer...)
	return &out
}

// aliasTTL bounds how long clients keep the alias: a Service of that name may come, and goes before.
const aliasTTL = 5

func shortest(m *dns.Msg) uint32 {
	ttl := uint32(aliasTTL)
	for _, rr := range append(m.Answer[:len(m.Answer):len(m.Answer)], m.Ns...) {
		ttl = min(ttl, rr.Header().Ttl)
	}
	return ttl
}
