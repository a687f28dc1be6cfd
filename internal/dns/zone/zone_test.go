package zone_test

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"
	"go.uber.org/goleak"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/dns/zone"
	"github.com/node-dns/node-dns/internal/test/dnstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func names(texts ...string) []dnsname.Name {
	var all []dnsname.Name
	for _, text := range texts {
		all = append(all, dnsname.MustParse(text))
	}
	return all
}

// answerer is a Handler that answers every address query with one address, by which the answerers are told apart.
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

// serve puts a Zone behind a real server, which is closed when the test ends.
func serve(t *testing.T, z *zone.Zone) netip.AddrPort {
	t.Helper()
	server := dnsserver.New(dnsserver.Config{Handler: z})
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

// TestWhoAnswers asks a server for names in and around the zones, once while the cluster is known and once while it is
// not: then what would go to the cluster is SERVFAIL with EDE 14 (Not Ready), and never goes to an upstream.
func TestWhoAnswers(t *testing.T) {
	cluster := []string{"cluster.local", "30.172.in-addr.arpa", "0.8.b.d.1.0.0.2.ip6.arpa"}
	tests := []struct {
		name, ask string
		apexes    []string
		cluster   bool
	}{
		{"apex", "cluster.local.", cluster, true},
		{"below the apex", "kubernetes.default.svc.cluster.local.", cluster, true},
		{"in another case", "Kubernetes.Default.SVC.Cluster.LOCAL.", cluster, true},
		{"underscores", "_https._tcp.kubernetes.default.svc.cluster.local.", cluster, true},
		{"wildcard", "*.default.svc.cluster.local.", cluster, true},
		{"reverse zone", "1.0.30.172.in-addr.arpa.", cluster, true},
		{"reverse apex", "30.172.in-addr.arpa.", cluster, true},
		{"IPv6 reverse zone", "1.0.0.0.0.8.b.d.1.0.0.2.ip6.arpa.", cluster, true},
		// dnsname.Parse refuses such octets, and the query has no Name: it went to the upstream servers.
		{"blank in a label", `a\032b.default.svc.cluster.local.`, cluster, true},
		{"slash in a label of a reverse zone", "0/25.0.30.172.in-addr.arpa.", cluster, true},
		{"octets below an odd label", `x.\195\164.cluster.local.`, cluster, true},
		{"dot in a label", `x\.cluster.local.`, cluster, false},
		{"odd octets elsewhere", `a\032b.example.com.`, cluster, false},
		{"above the apex", "local.", cluster, false},
		{"beside the apex", "other.local.", cluster, false},
		{"apex is the end of the label", "xcluster.local.", cluster, false},
		{"apex in the middle", "cluster.local.example.com.", cluster, false},
		{"another reverse zone", "1.0.31.172.in-addr.arpa.", cluster, false},
		{"above the reverse zone", "172.in-addr.arpa.", cluster, false},
		{"elsewhere", "www.example.com.", cluster, false},
		{"root", ".", cluster, false},
		{"no apexes", "kubernetes.default.svc.cluster.local.", nil, false},
		{"root is the apex", "www.example.com.", []string{"."}, true},
		{"root is the apex and the name", ".", []string{"."}, true},
		{"one apex within another", "a.sub.cluster.local.", []string{"cluster.local", "sub.cluster.local"}, true},
		{"one apex within another, the other order", "a.sub.cluster.local.", []string{"sub.cluster.local", "cluster.local"}, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			authority := zone.Authority{Apexes: names(test.apexes...), Cluster: answerer(fromCluster)}
			z := zone.New(authority, answerer(fromNext))
			if name, err := dnsname.Parse(test.ask); err == nil && z.Covers([]byte(name.String())) != test.cluster {
				t.Error("Covers knows better")
			}
			addr := serve(t, z)
			known, unknown := test.ask+" 5 A "+fromNext, test.ask+" 5 A "+fromNext
			if test.cluster {
				known, unknown = test.ask+" 5 A "+fromCluster, ";; SERVFAIL\n;; ede 14"
			}
			if diff := dnstest.Diff(known, dnstest.Exchange(t, addr, test.ask, dns.TypeA, dnstest.DO())); diff != "" {
				t.Errorf("while the cluster is known:\n%s", diff)
			}
			authority.Cluster = nil
			z.Set(authority)
			if diff := dnstest.Diff(unknown, dnstest.Exchange(t, addr, test.ask, dns.TypeA, dnstest.DO())); diff != "" {
				t.Errorf("while nobody knows the cluster:\n%s", diff)
			}
		})
	}
}

// TestErrorNamesTheZone: the text goes to the client and to the log, where somebody wonders which of the zones it is.
func TestErrorNamesTheZone(t *testing.T) {
	apexes := names("sub.cluster.local", "cluster.local", "30.172.in-addr.arpa", "sub.other.local", "other.local")
	z := zone.New(zone.Authority{Apexes: apexes}, answerer(fromNext))
	for ask, want := range map[string]string{
		"a.other.local":                        "no cluster DNS server is known for other.local.",
		"kubernetes.default.svc.cluster.local": "no cluster DNS server is known for cluster.local.",
		"1.0.30.172.in-addr.arpa":              "no cluster DNS server is known for 30.172.in-addr.arpa.",
		"a.sub.cluster.local":                  "no cluster DNS server is known for sub.cluster.local.",
	} {
		m, err := z.ServeDNS(t.Context(), query(t, ask))
		var extended *dnsserver.ExtendedError
		if m != nil || !errors.As(err, &extended) {
			t.Errorf("%s: %v, %v", ask, m, err)
			continue
		}
		if extended.Text != want || extended.Code != dns.ExtendedErrorCodeNotReady {
			t.Errorf("%s: %d %q", ask, extended.Code, extended.Text)
		}
	}
}

func query(t *testing.T, name string) *dnsserver.Query {
	t.Helper()
	return &dnsserver.Query{Msg: new(dns.Msg).SetQuestion(dns.Fqdn(name), dns.TypeA), Name: names(name)[0], Proto: dnsserver.UDP}
}

// TestAnswersPassUntouched holds for both sides: the same query goes in, and what comes out is neither copied nor
// wrapped. Above all an error of the cluster's server does not become a question to an upstream.
func TestAnswersPassUntouched(t *testing.T) {
	failure := errors.New("cluster DNS server is away")
	for _, result := range []struct {
		name string
		msg  *dns.Msg
		err  error
	}{
		{"response", new(dns.Msg), nil},
		{"error", nil, failure},
		{"no response", nil, nil},
	} {
		t.Run(result.name, func(t *testing.T) {
			var asked *dnsserver.Query
			answers := dnsserver.HandlerFunc(func(_ context.Context, q *dnsserver.Query) (*dns.Msg, error) {
				asked = q
				return result.msg, result.err
			})
			never := dnsserver.HandlerFunc(func(context.Context, *dnsserver.Query) (*dns.Msg, error) {
				t.Error("the other side was asked")
				return nil, nil
			})
			apexes := names("cluster.local")
			for name, z := range map[string]*zone.Zone{
				"a.cluster.local": zone.New(zone.Authority{Apexes: apexes, Cluster: answers}, never),
				"www.example.com": zone.New(zone.Authority{Apexes: apexes, Cluster: never}, answers),
			} {
				q := query(t, name)
				msg, err := z.ServeDNS(t.Context(), q)
				if msg != result.msg || !errors.Is(err, result.err) || asked != q {
					t.Errorf("%s: got %v, %v", name, msg, err)
				}
			}
		})
	}
}

// TestSetLeavesQueriesUnderWay: a query that is with the old cluster server when another becomes known ends there.
func TestSetLeavesQueriesUnderWay(t *testing.T) {
	apexes := names("cluster.local")
	began, end := make(chan struct{}), make(chan struct{})
	old := dnsserver.HandlerFunc(func(ctx context.Context, q *dnsserver.Query) (*dns.Msg, error) {
		close(began)
		<-end
		return answerer("172.30.0.1").ServeDNS(ctx, q)
	})
	z := zone.New(zone.Authority{Apexes: apexes, Cluster: old}, answerer(fromNext))
	var group sync.WaitGroup
	group.Go(func() {
		m, err := z.ServeDNS(t.Context(), query(t, "a.cluster.local"))
		if diff := dnstest.Diff("a.cluster.local. 5 A 172.30.0.1", m); diff != "" || err != nil {
			t.Errorf("the query under way: %v\n%s", err, diff)
		}
	})
	<-began
	z.Set(zone.Authority{Apexes: apexes, Cluster: answerer("172.30.0.2")})
	m, err := z.ServeDNS(t.Context(), query(t, "a.cluster.local"))
	if diff := dnstest.Diff("a.cluster.local. 5 A 172.30.0.2", m); diff != "" || err != nil {
		t.Errorf("a query after Set: %v\n%s", err, diff)
	}
	close(end)
	group.Wait()
}

// TestSetWhileServing swaps the zones and their server together under load. A query must see one of the two pairs: the
// first server with the second's zones would be asked for a name that it does not know.
func TestSetWhileServing(t *testing.T) {
	only := func(apex dnsname.Name) zone.Authority {
		return zone.Authority{
			Apexes: []dnsname.Name{apex},
			Cluster: dnsserver.HandlerFunc(func(_ context.Context, q *dnsserver.Query) (*dns.Msg, error) {
				if !q.Name.Within(apex) {
					t.Errorf("the server of %s was asked for %s", apex, q.Name)
				}
				return new(dns.Msg).SetReply(q.Msg), nil
			}),
		}
	}
	apexes := names("cluster.local", "other.local")
	z := zone.New(only(apexes[0]), answerer(fromNext))
	done := make(chan struct{})
	var group sync.WaitGroup
	for _, name := range []string{"a.cluster.local", "a.other.local"} {
		q := query(t, name)
		group.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if _, err := z.ServeDNS(t.Context(), q); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for i := range 50_000 {
		z.Set(only(apexes[i%2]))
	}
	close(done)
	group.Wait()
}
