package resolve

import (
	"context"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/dns/dnswire"
	"github.com/node-dns/node-dns/internal/dns/forward"
	"github.com/node-dns/node-dns/internal/dns/records"
)

// maxAliases bounds how often the aliases of one question lead to names that another server is asked about.
const maxAliases = 8

// errManyAliases is for aliases that lead on and on.
var errManyAliases = &dnsserver.ExtendedError{Code: dns.ExtendedErrorCodeOther, Text: "its aliases lead from one nameserver's names to another's too often"}

// aliasesSoFar is the key of a context's int: how often aliases have led to another server's names.
type aliasesSoFar struct{}

// isElsewhere reports whether an upstream nameserver that was asked about one name has no say about another: that is the cluster's, or
// has a route of its own.
func (r *Resolver) isElsewhere(s *state, from, to dnsname.Name) bool {
	return s.IsOfCluster(to) && !s.IsOfCluster(from) || r.forward.IsElsewhere(from, to)
}

// elsewhere is isElsewhere for a server that was asked about from.
func (r *Resolver) elsewhere(s *state, from dnsname.Name) func(name string) bool {
	return func(name string) bool { return r.isElsewhere(s, from, dnsserver.Domain(name)) }
}

// cut drops what a response says about names that its server has no say about: in the authority and the additional section, and behind
// an alias. It returns the alias's target; "": no alias leads to such a name. Our cache would not believe it of those names, but a caching
// client could (MaginotDNS, 2023).
func (r *Resolver) cut(s *state, q *dnsserver.Query, m *dns.Msg) (target string) {
	isElsewhere := r.elsewhere(s, q.Domain())
	records.DropBeside(m, isElsewhere)
	return records.KeepUntil(m, q.Msg.Question[0].Name, isElsewhere)
}

// followAlias completes m, which was cut before the target, by what a client is told that asks for that. A response to CNAME or ANY
// ends there.
func followAlias(ctx context.Context, q *dnsserver.Query, m *dns.Msg, target string, list rest) (*dns.Msg, error) {
	if qtype := q.Msg.Question[0].Qtype; qtype == dns.TypeCNAME || qtype == dns.TypeANY {
		dnsserver.Join(m, new(dns.Msg))
		return m, nil
	}
	n, _ := ctx.Value(aliasesSoFar{}).(int)
	if n == maxAliases {
		return nil, errManyAliases
	}
	rest, err := list.answer(context.WithValue(ctx, aliasesSoFar{}, n+1), q.Onward(target))
	if err != nil || rest == nil {
		return nil, err
	}
	dnsserver.Join(m, rest)
	return m, nil
}

// mustCut reports whether cut would change a reply, or might. A reply that was not parsed has no NS and no additional records.
func (r *Resolver) mustCut(s *state, reply forward.Reply) bool {
	if reply.Msg == nil && !reply.Wire.IsAlias {
		return false
	}
	var room [dnswire.MaxName]byte
	text, ok := dnswire.AppendText(room[:0], reply.Query.Name())
	from := dnsname.Canonical(string(text))
	if !ok {
		return true
	}
	if reply.Msg != nil {
		isElsewhere := r.elsewhere(s, from)
		return records.HasBeside(reply.Msg, isElsewhere) || records.LeadsTo(reply.Msg, from.String(), isElsewhere)
	}
	for target := range reply.Wire.Targets() {
		text, ok := dnswire.AppendText(room[:0], target)
		if !ok || r.isElsewhere(s, from, dnsname.Canonical(string(text))) {
			return true
		}
	}
	return false
}

// handleCut has ServeDNS answer the queries that wait for a reply. It cuts the reply, and asks another server for the rest.
func handleCut(reply forward.Reply) {
	m, server := reply.Msg, reply.From.Value()
	if m == nil {
		reply.Wire.Message[10], reply.Wire.Message[11] = 0, 0 // the OPT record is gone
		m, _ = records.Unpack(reply.Wire.Message)
	}
	for i, l := range reply.Waiting {
		reply.Waiting[i] = nil
		if m == nil {
			l.Handle(nil) // it asks again
			continue
		}
		l.Handle(&dnsserver.UpstreamResult{Server: server, Msg: m})
	}
}
