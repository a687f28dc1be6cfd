package daemon

import (
	"bytes"
	"net/netip"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/dns/dnswire"
)

// serveWire answers without parsing the query: for the cluster's names from what the API said last, for others from memory.
// It leaves to serve all that somebody before these could have a say in, so that a client is told the same with and without
// it: what is not known of the cluster is asked of its DNS servers, and autopath walks on from a
// name that does not exist. It allocates nothing.
func (d *Daemon) serveWire(dst []byte, q dnsserver.WireQuery) (response []byte, ok bool) {
	mark := d.mark.Load() // before all that it is the mark of
	s := d.serving.Load()
	if !s.hitsOnWire {
		return dst, false
	}
	var room [dnswire.MaxQuestion]byte
	question := q.AppendKey(room[:0])
	if response, ok = d.readyOnWire(s, dst, &q, question); ok {
		return d.ofCluster(response, len(dst)), true
	}
	c, highest := d.cache.Load(), uint32(max(s.Settings.ClientTTL, 0))
	if response, ok = c.AppendMarked(dst, &q, question, highest, mark); ok {
		return response, true
	}
	var buf [dnswire.MaxName]byte
	name, isName := dnswire.AppendText(buf[:0], q.Name())
	switch {
	case !isName || d.zone.Covers(name):
		if response, ok = d.clusterOnWire(s, dst, q); !ok && isName {
			response, ok = d.clusterHit(s, dst, q, name)
		}
		if ok {
			response = d.ofCluster(response, len(dst))
		}
		return response, ok
	case s.answersItself(q, name):
		return dst, false
	}
	return c.AppendAndMark(dst, &q, question, highest, mark)
}

// ofCluster returns dst, in which the response about a name of the cluster's begins at start.
func (d *Daemon) ofCluster(dst []byte, start int) []byte {
	if rcodeOf(dst[start:]) == dns.RcodeNameError {
		d.metrics.absent.Add()
	}
	return dst
}

// readyOnWire answers a question about the cluster that was asked before. A name that the resolver has an answer to is the
// zone's: nobody need look whose it is.
func (d *Daemon) readyOnWire(s *serving, dst []byte, q *dnsserver.WireQuery, question []byte) (response []byte, ok bool) {
	resolver := d.names.resolver.Load()
	if resolver == nil || !s.onWire {
		return dst, false
	}
	response, ok = resolver.AppendReady(dst, q, question)
	if ok && d.leadsOn(response[len(dst):], q.Client.Addr()) {
		return dst, false
	}
	return response, ok
}

// leadsOn says whether autopath goes on from a response: of a name that does not exist to a pod.
func (d *Daemon) leadsOn(response []byte, client netip.Addr) bool {
	return rcodeOf(response) == dns.RcodeNameError && d.podNamespace(client) != ""
}

// clusterOnWire answers from what the API says now.
func (d *Daemon) clusterOnWire(s *serving, dst []byte, q dnsserver.WireQuery) (response []byte, ok bool) {
	resolver := d.names.resolver.Load()
	if resolver == nil || !s.onWire {
		return dst, false
	}
	if snapshot := resolver.Snapshot(); snapshot == nil || snapshot.IsStale() {
		return dst, false
	}
	response, ok = resolver.AppendResponse(dst, q.Msg, q.Limit)
	if ok && d.leadsOn(response[len(dst):], q.Client.Addr()) {
		return dst, false
	}
	return response, ok
}

// clusterHit answers a name in the cluster's zones from memory, where that has it from the cluster's DNS servers: serveCluster
// asks them as long as the API says nothing that is new.
func (d *Daemon) clusterHit(s *serving, dst []byte, q dnsserver.WireQuery, name []byte) (response []byte, ok bool) {
	if len(s.ClusterDNS) == 0 || len(s.Overrides) > 0 || s.isLocalText(name) {
		return dst, false
	}
	if known := d.names.known(); known != nil && (!known.IsStale() || d.podNamespace(q.Client.Addr()) != "") {
		return dst, false
	}
	return d.cache.Load().AppendResponse(dst, q, 0)
}

// rcodeOf is the rcode in the header of a response, RFC 1035 section 4.1.1.
func rcodeOf(response []byte) int { return int(response[3] & 0xf) }

// answersItself reports whether a question about a name that is not the cluster's may have an answer that is neither an
// upstream's nor remembered: what local, serveLocalData and serveUpstream look for. It may be wrong about that, not about the
// contrary.
func (s *serving) answersItself(q dnsserver.WireQuery, name []byte) bool {
	switch q.Type() {
	case dns.TypeANY:
		return true
	case dns.TypeSOA, dns.TypeSRV:
		if s.Options.FilterWin2K {
			return true
		}
	case dns.TypePTR:
		if s.Options.BogusPrivate {
			return true
		}
	}
	return s.isLocalText(name)
}

// isLocalText reports whether a name, by its text, may be one that is answered before anybody looks whose it is.
func (s *serving) isLocalText(name []byte) bool {
	isPlain := bytes.IndexByte(name, '.') == len(name)-1
	return isPlain && (s.Config.DomainNeeded || string(name) == "localhost.") || bytes.HasSuffix(name, []byte(".localhost.")) ||
		bytes.HasSuffix(name, []byte(probeZone)) || isSpecialText(name) || s.Local.Concerns(name)
}

// hasLocalNames says whether a name in the domain may be one that is answered before anybody looks whose it is: a plain
// one, localhost, or our own loop probe.
func hasLocalNames(domain dnsname.Name) bool {
	return domain.Labels() < 2 || isLocalhost(domain) || bytes.HasSuffix([]byte("."+domain.String()), []byte(probeZone))
}
