package resolve

import (
	"context"
	"net/netip"
	"sync/atomic"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/dnsserver"
)

// searchFunc returns the search list of a client's resolver in order: the kubelet's for a pod. nil
// means that it is unknown and that the client's search list is not walked. It is called
// concurrently.
type searchFunc func(client netip.Addr) []dnsname.Name

// autopath walks a pod's search list on the node. It answers a query for
// google.com.shop.svc.cluster.local with a CNAME to google.com and its addresses. Otherwise the pod
// would query google.com.svc.cluster.local, google.com.cluster.local and google.com next, each for
// A and AAAA (kubernetes issue 33554). It queries one name after the other, as the pod's resolver
// library would, and counts. The zero value is ready for use. It is safe for concurrent use.
type autopath struct {
	answered, saved atomic.Uint64
}

// Walked counts walks through search lists since the start.
type Walked struct {
	Answered uint64 // queries answered with a later name of the search list
	Saved    uint64 // queries that clients did not have to send because of that
}

// stats returns the counters.
func (a *autopath) stats() Walked {
	return Walked{Answered: a.answered.Load(), Saved: a.saved.Load()}
}

// serve answers q through next. It walks on only if the name is below the first domain of the
// client's search list and does not exist, because then the client would query the following names
// next.
//
// If it is unclear what the client would do with a name on the way, the client gets the NXDOMAIN
// for its own query and continues by itself, with the same result as without the walk. Resolver
// libraries differ here: glibc continues after a name with other records and after a server
// failure, musl stops at both.
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

// beginning returns the name that the client looks for and the rest of its search list. The name is
// "" if q does not start a walk.
func beginning(q *dnsserver.Query, list searchFunc) (string, []dnsname.Name) {
	question := q.Msg.Question[0]
	if question.Qclass != dns.ClassINET || question.Qtype != dns.TypeA && question.Qtype != dns.TypeAAAA || q.Name.IsZero() {
		return "", nil
	}
	search := list(q.Client.Addr().Unmap())
	if len(search) < 2 || search[0].IsRoot() || q.Name == search[0] || !q.Name.Within(search[0]) {
		return "", nil
	}
	// A dnsname.Name has no escapes, so text and name have the same length.
	return question.Name[:len(question.Name)-len(search[0].String())], search[1:]
}

// candidates returns the names that follow, ending with the name itself. name must end in a dot.
func candidates(name string, search []dnsname.Name) []string {
	var list []string
	for _, domain := range search {
		if !domain.IsRoot() && len(name)+len(domain.String()) <= maxName {
			list = append(list, name+domain.String())
		}
	}
	return append(list, name)
}

// maxName is the maximum length of a name as a string, including the final dot. RFC 1035 section
// 3.1 allows 255 bytes, and the string lacks the root and the length of the first label.
const maxName = 254

// step is the result for one name of the walk.
type step int

const (
	absent step = iota // continue the walk
	found              // the name is the answer
	unsure
)

// judge queries q and the other address family. As in getaddrinfo(3), a name is found if either
// family has an answer, so A and AAAA come from one decision. Deciding each family alone mixed the
// families of two hosts (coredns issue 2842). A failure does not mean that a name is absent:
// walking on after one gives the address of the wrong host while a server is down for a moment
// (coredns issue 3765).
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
	// Some servers return NXDOMAIN for the name when queried for AAAA (RFC 4074 section 4.2).
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

// hasAnswer is also true for an alias without an address, because resolver libraries end their
// search there.
func hasAnswer(m *dns.Msg) bool { return m.Rcode == dns.RcodeSuccess && len(m.Answer) > 0 }

func renamed(q *dnsserver.Query, name string) *dnsserver.Query {
	return reasked(q, dns.Question{Name: name, Qtype: q.Msg.Question[0].Qtype, Qclass: dns.ClassINET})
}

func otherFamily(q *dnsserver.Query) *dnsserver.Query {
	question := q.Msg.Question[0]
	question.Qtype = dns.TypeA + dns.TypeAAAA - question.Qtype
	return reasked(q, question)
}

// reasked returns q with another question. It copies the message, because that of a Query is
// read-only and may be kept.
func reasked(q *dnsserver.Query, question dns.Question) *dnsserver.Query {
	m := *q.Msg
	m.Question = []dns.Question{question}
	// The labels are those of two Names. The result is the zero Name if together they are too long.
	name, _ := dnsname.Parse(question.Name)
	return &dnsserver.Query{Msg: &m, Name: name, Client: q.Client, Local: q.Local, Proto: q.Proto, Inquiry: q.Inquiry}
}

// aliased returns the answer to q with an alias to name, which m answers.
func aliased(q *dnsserver.Query, name string, m *dns.Msg) *dns.Msg {
	out := *m
	out.Authoritative, out.AuthenticatedData = true, false // the alias is ours and not signed
	out.Answer = append([]dns.RR{&dns.CNAME{
		Hdr:    dns.RR_Header{Name: q.Msg.Question[0].Name, Rrtype: dns.TypeCNAME, Class: dns.ClassINET, Ttl: shortest(m)},
		Target: name,
	}}, m.Answer...)
	return &out
}

// aliasTTL limits how long clients cache the alias, because a Service with an earlier name in the
// list may appear.
const aliasTTL = 5

func shortest(m *dns.Msg) uint32 {
	ttl := uint32(aliasTTL)
	for _, rr := range append(m.Answer[:len(m.Answer):len(m.Answer)], m.Ns...) {
		ttl = min(ttl, rr.Header().Ttl)
	}
	return ttl
}

// walkSearchList continues through a pod's search list if a cluster name does not exist.
func walkSearchList(ctx context.Context, s *state, q *dnsserver.Query, next rest) (*dns.Msg, error) {
	return next.r.autopath.serve(ctx, q, next, func(client netip.Addr) []dnsname.Name {
		return s.Search.Of(next.r.namespaceOf(s, client))
	})
}

// walksList reports whether the client is a pod whose search list is walked.
func walksList(r *Resolver, s *state, client netip.Addr) bool { return r.namespaceOf(s, client) != "" }

// namespaceOf returns the namespace of a client that is a pod of this node with the usual search
// list. It returns "" for other clients, and if search lists are not walked.
func (r *Resolver) namespaceOf(s *state, client netip.Addr) string {
	snapshot := r.names.known()
	if snapshot == nil {
		return ""
	}
	namespace := snapshot.SearchNamespace(client)
	if namespace == "" || s.Net.IsLocal(client) || r.config.NoSearch(s.Policy) != "" {
		return ""
	}
	return namespace
}
