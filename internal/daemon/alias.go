package daemon

import (
	"context"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dnsname"
	"github.com/node-dns/node-dns/internal/dnsserver"
	"github.com/node-dns/node-dns/internal/dnswire"
	"github.com/node-dns/node-dns/internal/forward"
	"github.com/node-dns/node-dns/internal/records"
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
	return s.isOfCluster(to) && !s.isOfCluster(from) || d.forward.IsElsewhere(from, to)
}

// cutAlias drops what a response says behind an alias about names that its server has no say about, and returns the first of them;
// "": there is none. Our cache would not believe it of those names, but a caching client could (MaginotDNS, 2023).
func (d *Daemon) cutAlias(s *serving, q *dnsserver.Query, m *dns.Msg) (target string) {
	from := q.Domain()
	return forward.KeepUntil(m, q.Msg.Question[0].Name, func(target string) bool {
		return d.isElsewhere(s, from, dnsserver.Domain(target))
	})
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

// leadsElsewhere reports whether cutAlias would cut a reply, or might.
func (d *Daemon) leadsElsewhere(s *serving, r forward.Reply) bool {
	if r.Msg == nil && !r.Wire.IsAlias {
		return false
	}
	var room [dnswire.MaxName]byte
	text, ok := dnswire.AppendText(room[:0], r.Waiting[0].Query().Name())
	from := dnsname.Canonical(string(text))
	if !ok {
		return true
	}
	if r.Msg != nil {
		isElsewhere := func(target string) bool { return d.isElsewhere(s, from, dnsserver.Domain(target)) }
		return forward.LeadsTo(r.Msg, from.String(), isElsewhere)
	}
	for target := range r.Wire.Targets() {
		text, ok := dnswire.AppendText(room[:0], target)
		if !ok || d.isElsewhere(s, from, dnsname.Canonical(string(text))) {
			return true
		}
	}
	return false
}

// handleAlias has the Handler answer who waits for a reply, as it has to ask another server for the rest.
func (d *Daemon) handleAlias(r forward.Reply) {
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
