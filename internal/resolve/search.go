package resolve

import (
	"context"
	"net/netip"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/dnsserver"
)

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
