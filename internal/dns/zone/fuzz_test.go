package zone_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"slices"
	"testing"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/dns/zone"
)

// FuzzQueries: for any query, the response echoes the question and fits the limit, and a negative
// one states its lifetime.
func FuzzQueries(f *testing.F) {
	for _, question := range questions()[:200] {
		f.Add(packedQuery(f, question.Name, question.Qtype), uint16(1232))
	}
	for name, qtype := range map[string]uint16{"web.shop.svc.cluster.local.": dns.TypeANY, `a\000\.b.svc.cluster.local.`: dns.TypeSOA, ".": dns.TypeNS} {
		f.Add(packedQuery(f, name, qtype), uint16(512))
	}
	resolvers := fuzzed(f)
	f.Fuzz(func(t *testing.T, query []byte, limit uint16) {
		for _, resolver := range resolvers {
			wire, ok := resolver.AppendResponse(nil, query, int(limit))
			if ok {
				checkResponse(t, query, wire, int(limit))
			}
		}
	})
}

// FuzzNames: the same holds for all objects, names and types, and the server gives the same answer
// as the wire format path.
func FuzzNames(f *testing.F) {
	for i, question := range questions()[:200] {
		f.Add(uint64(i), question.Name, question.Qtype)
	}
	resolvers := fuzzed(f)
	f.Fuzz(func(t *testing.T, seed uint64, name string, qtype uint16) {
		query := new(dns.Msg).SetQuestion(dns.Fqdn(name), qtype)
		packed, err := query.Pack()
		if err != nil || query.Unpack(packed) != nil || len(query.Question) != 1 {
			return
		}
		h := newHistory(seed)
		for range 60 {
			h.step()
		}
		snapshot := h.builder.Snapshot(newest)
		if seed%2 == 0 {
			snapshot = snapshot.Stale()
		}
		for _, resolver := range resolvers {
			resolver.Set(snapshot)
			checkBothWays(t, resolver, query, packed)
		}
	})
}

func checkBothWays(t *testing.T, resolver *zone.Resolver, query *dns.Msg, packed []byte) {
	t.Helper()
	wire, ok := resolver.AppendResponse(nil, packed, dns.MaxMsgSize)
	m, err := resolver.ServeDNS(t.Context(), &dnsserver.Query{Msg: query, Proto: dnsserver.TCP})
	if err != nil && ok || err == nil && m == nil {
		t.Fatalf("%s: %v, %v", query.Question[0].Name, m, err)
	}
	if !ok {
		return
	}
	checkResponse(t, packed, wire, dns.MaxMsgSize)
	onWire := new(dns.Msg)
	if err := onWire.Unpack(wire); err != nil {
		t.Fatal(err)
	}
	if m.Id, onWire.Id = 0, 0; rest(m) != rest(onWire) {
		t.Fatalf("from the server\n%s\nin wire format\n%s", m, onWire)
	}
}

// rest formats the response without what the server sets: flags, and the OPT record, from which it
// takes only the errors.
func rest(m *dns.Msg) string {
	m.RecursionDesired, m.RecursionAvailable, m.Response = false, false, false
	m.Extra = slices.DeleteFunc(m.Extra, func(rr dns.RR) bool { return rr.Header().Rrtype == dns.TypeOPT })
	return m.String()
}

// fuzzed returns Resolvers over all kinds of objects.
func fuzzed(f *testing.F) []*zone.Resolver {
	empty := dnsserver.HandlerFunc(func(context.Context, *dnsserver.Query) (*dns.Msg, error) { return new(dns.Msg), nil })
	var all []*zone.Resolver
	for _, change := range []func(*zone.Config){nil, openShift, nameservers, zonal, verified} {
		all = append(all, resolverOf(f, shop, func(c *zone.Config) {
			if change != nil {
				change(c)
			}
			c.Next = empty
		}))
	}
	return all
}

// checkResponse checks what holds for every response.
func checkResponse(t *testing.T, query, wire []byte, limit int) {
	t.Helper()
	m := new(dns.Msg)
	if err := m.Unpack(wire); err != nil {
		t.Fatalf("%x: %v", wire, err)
	}
	end := 12
	for query[end] != 0 {
		end += 1 + int(query[end])
	}
	end += 5
	switch {
	case len(wire) > limit:
		t.Fatalf("got %d octets, want at most %d", len(wire), limit)
	case !bytes.Equal(wire[:2], query[:2]), !bytes.Equal(wire[4:6], query[4:6]), !bytes.Equal(wire[12:end], query[12:end]):
		t.Fatalf("%x is not a response to %x", wire, query)
	case !m.Response, !m.Authoritative, !m.RecursionAvailable, m.Zero:
		t.Fatalf("flags of %s", m)
	case m.Rcode != dns.RcodeSuccess && m.Rcode != dns.RcodeNameError:
		t.Fatalf("rcode of %s", m)
	case m.Rcode == dns.RcodeNameError && len(m.Answer) > 0:
		t.Fatalf("got an answer for a name that does not exist: %s", m)
	case (m.IsEdns0() != nil) != (binary.BigEndian.Uint16(query[10:]) > 0):
		t.Fatalf("OPT record of %s", m)
	}
	if len(m.Answer) == 0 && !m.Truncated {
		checkNegative(t, m)
	}
	for _, rr := range m.Answer {
		head := rr.Header()
		if head.Name != m.Question[0].Name || head.Class != dns.ClassINET {
			t.Fatalf("owner of %s", rr)
		}
		qtype := m.Question[0].Qtype
		if head.Rrtype != qtype && !(head.Rrtype == dns.TypeHINFO && qtype == dns.TypeANY) {
			t.Fatalf("%s does not answer %s", rr, dns.Type(qtype))
		}
	}
	if len(m.Answer) > 0 && len(m.Ns) > 0 {
		t.Fatalf("answer and authority: %s", m)
	}
}

func checkNegative(t *testing.T, m *dns.Msg) {
	t.Helper()
	if len(m.Ns) != 1 || len(m.Extra) > 1 {
		t.Fatalf("sections of %s", m)
	}
	soa, ok := m.Ns[0].(*dns.SOA)
	if !ok || !dns.IsSubDomain(soa.Hdr.Name, m.Question[0].Name) {
		t.Fatalf("authority of %s", m)
	}
}
