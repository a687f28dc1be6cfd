package zone

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/dns/dnswire"
)

// ServeDNS implements dnsserver.Handler.
func (r *Resolver) ServeDNS(ctx context.Context, q *dnsserver.Query) (*dns.Msg, error) {
	question := q.Msg.Question[0]
	if question.Qclass != dns.ClassINET {
		return &dns.Msg{MsgHdr: dns.MsgHdr{Rcode: dns.RcodeRefused}}, nil
	}
	return r.serve(ctx, q, question.Name, nil)
}

// serve answers q as if its qname were name. chain has the owners of the CNAME records that led to
// name.
func (r *Resolver) serve(ctx context.Context, q *dnsserver.Query, name string, chain []string) (*dns.Msg, error) {
	l := r.lookups.Get().(*lookup)
	defer r.lookups.Put(l)
	var wire [maxName]byte
	end, err := dns.PackDomainName(name, wire[:], 0, nil, false)
	if err != nil || l.read(wire[:end]) == 0 {
		return nil, fmt.Errorf("reading the name %q: %w", name, err)
	}
	l.qtype = q.Msg.Question[0].Qtype
	snapshot := r.Snapshot()
	l.begin(r.cfg, snapshot)
	l.resolve()
	if l.verdict == foreign {
		return r.forward(ctx, q, name, chain)
	}
	if snapshot == nil {
		return nil, r.unready()
	}
	switch {
	case l.verdict == unknown && l.isImport():
		return nil, errNoImports
	case l.verdict == unknown:
		return nil, errSomePods
	}
	limit := dns.MaxMsgSize
	if q.Proto == dnsserver.UDP {
		limit = dnswire.MaxUDP
	}
	m, err := l.unpacked(limit)
	if err != nil || l.verdict != chased {
		return m, err
	}
	return r.chase(ctx, q, m, chain)
}

// unpacked returns the answer as a message of at most limit bytes.
func (l *lookup) unpacked(limit int) (*dns.Msg, error) {
	l.wire = l.appendResponse(l.wire[:0], asking{limit: limit})
	m := new(dns.Msg)
	if err := m.Unpack(l.wire); err != nil {
		return nil, fmt.Errorf("unpacking an answer: %w", err)
	}
	if l.snapshot.stale {
		dnsserver.Explain(m, l.staleCode(), staleText)
	}
	return m, nil
}

// maxChain is the maximum number of CNAME records that lead to an answer in the cluster, because an
// ExternalName service may name another one. CoreDNS 1.15 and unbound follow 11.
const maxChain = 16

// errSomePods is the error for the name of a Pod while not all Pods are known.
var errSomePods = &dnsserver.ExtendedError{
	Code: dns.ExtendedErrorCodeNotReady,
	Text: "not all pods are known yet, and pods: verified answers only for existing ones",
}

// errNoImports is the error for names in Config.ClusterSet while the ServiceImports are unknown.
var errNoImports = &dnsserver.ExtendedError{
	Code: dns.ExtendedErrorCodeNotReady,
	Text: "the ServiceImports of the Kubernetes API have not been read yet",
}

// Errors of CNAME chains without an end.
var (
	errCircle = &dnsserver.ExtendedError{Code: dns.ExtendedErrorCodeOther, Text: "ExternalName services form a loop"}
	errLong   = &dnsserver.ExtendedError{Code: dns.ExtendedErrorCodeOther, Text: fmt.Sprintf("chain of more than %d ExternalName services", maxChain)}
)

// chase completes m, which ends with a CNAME record, with the records of its target. The AA bit
// refers to the first name (RFC 1035 section 4.1.1).
func (r *Resolver) chase(ctx context.Context, q *dnsserver.Query, m *dns.Msg, chain []string) (*dns.Msg, error) {
	alias := m.Answer[0].(*dns.CNAME)
	chain = append(chain, alias.Hdr.Name)
	isTarget := func(owner string) bool { return strings.EqualFold(owner, alias.Target) }
	switch {
	case slices.ContainsFunc(chain, isTarget):
		return nil, errCircle
	case len(chain) > maxChain:
		return nil, errLong
	}
	rest, err := r.serve(ctx, q, alias.Target, chain)
	if err != nil || rest == nil {
		return nil, err
	}
	out := &dns.Msg{Answer: m.Answer}
	dnsserver.Join(out, rest)
	out.Authoritative = rest.Rcode == dns.RcodeSuccess || rest.Rcode == dns.RcodeNameError
	return out, nil
}

// forward passes name to Next: as q itself or, after CNAME records, as a new query.
func (r *Resolver) forward(ctx context.Context, q *dnsserver.Query, name string, chain []string) (*dns.Msg, error) {
	if len(chain) == 0 {
		q.Origin = ""
		return r.cfg.Next.ServeDNS(ctx, q)
	}
	onward := q.Onward(name)
	answer, err := r.cfg.Next.ServeDNS(ctx, onward)
	// The Origin remains ours, because we had the alias.
	q.AnsweredBy, q.Cached, q.Age = onward.AnsweredBy, onward.Cached, onward.Age
	return answer, err
}
