package daemon

import (
	"strings"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dnsname"
	"github.com/node-dns/node-dns/internal/dnsserver"
)

// serveWire answers for the cluster's names from what the API said last, without parsing the query. It leaves to serve
// all that somebody before the resolver could have a say in, so that a client is told the same with and without it: who
// may not ask is refused, what is not known of the cluster is asked of its DNS servers, and autopath walks on from a
// name that does not exist. It allocates nothing.
func (d *Daemon) serveWire(dst []byte, q dnsserver.WireQuery) (response []byte, ok bool) {
	s, resolver := d.serving.Load(), d.names.resolver.Load()
	if resolver == nil || !s.onWire || !s.access.allows(q.Local, q.Client.Addr(), s.net.IsLocal) {
		return dst, false
	}
	if snapshot := resolver.Snapshot(); snapshot == nil || snapshot.IsStale() {
		return dst, false
	}
	response, ok = resolver.AppendResponse(dst, q.Msg, q.Limit)
	if ok && rcodeOf(response[len(dst):]) == dns.RcodeNameError && d.podNamespace(q.Client.Addr()) != "" {
		return dst, false
	}
	return response, ok
}

// rcodeOf is the rcode in the header of a response, RFC 1035 section 4.1.1.
func rcodeOf(response []byte) int { return int(response[3] & 0xf) }

// hasLocalNames says whether a name in the domain may be one that is answered before anybody looks whose it is: a plain
// one, localhost, or our own loop probe.
func hasLocalNames(domain dnsname.Name) bool {
	return domain.Labels() < 2 || isLocalhost(domain) || strings.HasSuffix("."+domain.String(), probeZone)
}
