package resolve

import (
	"context"
	"slices"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/dns/dnswire"
	"github.com/node-dns/node-dns/internal/dns/forward"
)

// maxAliases is the maximum number of times that the aliases of one question may lead to names of
// another server.
const maxAliases = 8

// errManyAliases is the error for an alias chain that exceeds maxAliases.
var errManyAliases = &dnsserver.ExtendedError{Code: dns.ExtendedErrorCodeOther, Text: "too many CNAMEs between the names of different nameservers"}

// aliasesSoFar is the context key of the number of times that aliases led to another server's
// names.
type aliasesSoFar struct{}

// isElsewhere reports whether an upstream nameserver that was queried for the name from is not
// responsible for the name to, because that is a cluster name or has a route of its own.
func (r *Resolver) isElsewhere(s *state, from, to dnsname.Name) bool {
	return s.IsOfCluster(to) && !s.IsOfCluster(from) || r.forward.IsElsewhere(from, to)
}

// elsewhere returns isElsewhere for a server that was queried for from.
func (r *Resolver) elsewhere(s *state, from dnsname.Name) func(name string) bool {
	return func(name string) bool { return r.isElsewhere(s, from, dnsserver.Domain(name)) }
}

// cut drops records for names that the server of a response is not responsible for, in the
// authority and additional sections and after an alias. It returns the target of the alias, or ""
// if no alias leads to such a name. Our cache would not use such records, but a caching client
// could (MaginotDNS, 2023).
func (r *Resolver) cut(s *state, q *dnsserver.Query, m *dns.Msg) (target string) {
	isElsewhere := r.elsewhere(s, q.Domain())
	dnswire.DropBeside(m, isElsewhere)
	return dnswire.KeepUntil(m, q.Msg.Question[0].Name, isElsewhere)
}

// followAlias completes m, which was cut before target, with the answer that a client would get for
// target. A response to CNAME or ANY ends at the alias.
func followAlias(ctx context.Context, q *dnsserver.Query, m *dns.Msg, target string, list rest) (*dns.Msg, error) {
	if qtype := q.Msg.Question[0].Qtype; qtype == dns.TypeCNAME || qtype == dns.TypeANY {
		dnsserver.Join(m, new(dns.Msg))
		return m, nil
	}
	n, _ := ctx.Value(aliasesSoFar{}).(int)
	if n == maxAliases {
		return nil, errManyAliases
	}
	rest, err := list.ServeDNS(context.WithValue(ctx, aliasesSoFar{}, n+1), q.Onward(target))
	if err != nil || rest == nil {
		return nil, err
	}
	dnsserver.Join(m, rest)
	return m, nil
}

// mustCut reports whether cut could change a reply. A reply that was not parsed has no NS and no
// additional records.
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
		return dnswire.HasBeside(reply.Msg, isElsewhere) || dnswire.LeadsTo(reply.Msg, from.String(), isElsewhere)
	}
	for target := range reply.Wire.Targets() {
		text, ok := dnswire.AppendText(room[:0], target)
		if !ok || r.isElsewhere(s, from, dnsname.Canonical(string(text))) {
			return true
		}
	}
	return false
}

// handleCut passes the queries that wait for a reply to ServeDNS, which cuts the reply and queries
// another server for the rest.
func handleCut(reply forward.Reply) {
	m, server := reply.Msg, reply.From.Value()
	if m == nil {
		reply.Wire.Message[10], reply.Wire.Message[11] = 0, 0 // the OPT record was removed
		m, _ = dnswire.Unpack(reply.Wire.Message)
	}
	waiting := slices.Clone(reply.Waiting)
	clear(reply.Waiting)
	if m == nil {
		dnsserver.HandleAll(waiting, nil) // ServeDNS queries again
		return
	}
	dnsserver.HandleAll(waiting, &dnsserver.UpstreamResult{Server: server, Msg: m, Tag: reply.Tag})
}
