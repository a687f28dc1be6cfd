package dnsserver

import (
	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/nameserver"
)

// answerProbe returns the response to a query of nameserver.Identify from this host, and nil for
// any other message. The daemon, the intercept helper and the hook send it to check whether
// node-dns answers. These queries are not counted, reported or limited.
//
// Any program of this host can send such a query. It gains nothing: this host has no limits
// anyway, and the Handler answers the question itself. Without a free slot the query is one like
// any other, so that a probe fails while the server sheds queries.
func (r *responder) answerProbe(x *exchange) []byte {
	if !nameserver.IsProbe(x.wire) {
		return nil
	}
	access, client := r.access.Load(), x.client.Addr()
	if !access.isHost(client) || !access.Allows(x.local, client) || r.enter(client) != entered {
		return nil
	}
	defer r.leave(client)
	q, _, rcode := parseQuery(x.wire, x.client, x.local, x.proto)
	if q == nil || rcode != dns.RcodeSuccess {
		return nil
	}
	m, err := r.cfg.Handler.ServeDNS(r.queries, q)
	if err != nil || m == nil {
		return nil
	}
	response, _, err := pack(complete(q, m), dns.MinMsgSize, nil)
	if err != nil {
		return nil
	}
	return response
}
