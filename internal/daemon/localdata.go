package daemon

import (
	"context"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dnsname"
	"github.com/node-dns/node-dns/internal/dnsserver"
)

// serveLocalData answers what dnsmasq's files and hosts files say of names. What they do not say is asked further; that a name
// does not exist is not believed of one of theirs.
func (d *Daemon) serveLocalData(ctx context.Context, q *dnsserver.Query) (*dns.Msg, error) {
	s := d.serving.Load()
	if s.local.IsEmpty() {
		return d.serveFiltered(ctx, q)
	}
	if answer, ok := s.local.Answer(q.Msg.Question[0], q.Name, d.routedLabels(s, q.Name)); ok {
		m := reply(q, dns.RcodeSuccess)
		m.Authoritative = true
		m.Answer = answer
		return m, nil
	}
	m, err := d.serveFiltered(ctx, q)
	if m != nil && m.Rcode == dns.RcodeNameError && s.local.Exists(q.Name) {
		m.Rcode = dns.RcodeSuccess
	}
	return m, err
}

// routedLabels is how long a domain is that has answers of its own for a name: a route's, or the cluster's.
func (d *Daemon) routedLabels(s *serving, name dnsname.Name) int {
	longest := 0
	if route, ok := d.forward.Match(name); ok && !route.Plain {
		longest = route.Domain.Labels()
	}
	for _, apex := range s.apexes {
		if name.Within(apex) {
			longest = max(longest, apex.Labels())
		}
	}
	return longest
}

// isLocalName reports whether something is known of a name: it is asked for, however plain it is.
func (d *Daemon) isLocalName(name dnsname.Name) bool { return d.serving.Load().local.Exists(name) }
