package zone_test

import (
	"context"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/miekg/dns"
	"go.uber.org/goleak"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/dns/zone"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func names(texts ...string) []dnsname.Name {
	var all []dnsname.Name
	for _, text := range texts {
		all = append(all, dnsname.MustParse(text))
	}
	return all
}

// answerer returns a Handler that answers every address query with addr, so that tests can tell
// answerers apart.
func answerer(addr string) dnsserver.Handler {
	return dnsserver.HandlerFunc(func(_ context.Context, q *dnsserver.Query) (*dns.Msg, error) {
		m := new(dns.Msg).SetReply(q.Msg)
		m.Answer = []dns.RR{&dns.A{
			Hdr: dns.RR_Header{Name: q.Msg.Question[0].Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 5},
			A:   netip.MustParseAddr(addr).AsSlice(),
		}}
		return m, nil
	})
}

const (
	fromCluster = "172.30.0.1"
	fromNext    = "192.0.2.1"
)

// serve runs a Handler in a real server until the test ends.
func serve(t *testing.T, h dnsserver.Handler) netip.AddrPort {
	t.Helper()
	server := dnsserver.New(dnsserver.Config{Handler: h})
	if err := server.Listen([]netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:0")}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := server.Shutdown(ctx); err != nil {
			t.Error(err)
		}
	})
	return server.Listeners()[0].Addr
}

func query(t *testing.T, name string) *dnsserver.Query {
	t.Helper()
	return &dnsserver.Query{Msg: new(dns.Msg).SetQuestion(dns.Fqdn(name), dns.TypeA), Name: names(name)[0], Proto: dnsserver.UDP}
}

// within passes names in the Resolver's zones to it, and all others to next.
func within(r *zone.Resolver, next dnsserver.Handler) dnsserver.Handler {
	apexes := r.Apexes()
	return dnsserver.HandlerFunc(func(ctx context.Context, q *dnsserver.Query) (*dns.Msg, error) {
		if slices.ContainsFunc(apexes, q.Domain().Within) {
			return r.ServeDNS(ctx, q)
		}
		return next.ServeDNS(ctx, q)
	})
}
