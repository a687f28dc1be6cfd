package daemon

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
func (d *Daemon) isElsewhere(s *serving, from, to dnsname.Name) bool {
	return s.IsOfCluster(to) && !s.IsOfCluster(from) || d.forward.IsElsewhere(from, to)
}

// elsewhere is isElsewhere for a server that was asked about from.
func (d *Daemon) elsewhere(s *serving, from dnsname.Name) func(name string) bool {
	return func(name string) bool { return d.isElsewhere(s, from, dnsserver.Domain(name)) }
}

// cut drops what a response says about names that its server has no say about: in the authority and the additional section, and behind
// an alias. It returns the alias's target; "": no alias leads to such a name. Our cache would not believe it of those names, but a caching
// client could (MaginotDNS, 2023).
func (d *Daemon) cut(s *serving, q *dnsserver.Query, m *dns.Msg) (target string) {
	isElsewhere := d.elsewhere(s, q.Domain())
	records.DropBeside(m, isElsewhere)
	return records.KeepUntil(m, q.Msg.Question[0].Name, isElsewhere)
}

// followAlias completes m, which was cut before the target, by what a client is told that asks for that. A response to CNAME or ANY
// ends there.
func (d *Daemon) followAlias(ctx context.Context, q *dnsserver.Query, m *dns.Msg, target string) (*dns.Msg, error) {
	if qtype := q.Msg.Question[0].Qtype; qtype == dns.TypeCNAME || qtype == dns.TypeANY {
		dnsserver.Join(m, new(dns.Msg))
		return m, nil
	}
	n, _ := ctx.Value(aliasesSoFar{}).(int)
	if n == maxAliases {
		return nil, errManyAliases
	}
	next := d.local(dnsserver.HandlerFunc(d.serveLocalData))
	rest, err := next.ServeDNS(context.WithValue(ctx, aliasesSoFar{}, n+1), q.Onward(target))
	if err != nil || rest == nil {
		return nil, err
	}
	dnsserver.Join(m, rest)
	return m, nil
}

// mustCut reports whether cut would change a reply, or might. A reply that was not parsed has no NS and no additional records.
func (d *Daemon) mustCut(s *serving, r forward.Reply) bool {
	if r.Msg == nil && !r.Wire.IsAlias {
		return false
	}
	var room [dnswire.MaxName]byte
	text, ok := dnswire.AppendText(room[:0], r.Query.Name())
	from := dnsname.Canonical(string(text))
	if !ok {
		return true
	}
	if r.Msg != nil {
		isElsewhere := d.elsewhere(s, from)
		return records.HasBeside(r.Msg, isElsewhere) || records.LeadsTo(r.Msg, from.String(), isElsewhere)
	}
	for target := range r.Wire.Targets() {
		text, ok := dnswire.AppendText(room[:0], target)
		if !ok || d.isElsewhere(s, from, dnsname.Canonical(string(text))) {
			return true
		}
	}
	return false
}

// handleCut makes the Handler answer the queries that wait for a reply. It cuts the reply, and asks another server for the rest.
func (d *Daemon) handleCut(r forward.Reply) {
	m, server := r.Msg, r.From.Value()
	if m == nil {
		r.Wire.Message[10], r.Wire.Message[11] = 0, 0 // the OPT record is gone
		m, _ = records.Unpack(r.Wire.Message)
	}
	for i, l := range r.Waiting {
		r.Waiting[i] = nil
		if m == nil {
			l.Handle(nil) // it asks again
			continue
		}
		l.Handle(&dnsserver.Tried{Server: server, Msg: m})
	}
}
