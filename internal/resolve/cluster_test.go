package resolve

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/policy"
	"github.com/node-dns/node-dns/internal/test/dnstest"
	"github.com/node-dns/node-dns/internal/test/policytest"
)

func domains(texts ...string) (all []dnsname.Name) {
	for _, text := range texts {
		all = append(all, dnsname.MustParse(text))
	}
	return all
}

// sides replaces the cluster's nameservers, and the handlers after the cluster's, with these
// functions.
func sides(r *Resolver, cluster, other func(*state, *dnsserver.Query) (*dns.Msg, error)) {
	r.order = append([]handler{}, order[:]...)
	end := func(answer func(*state, *dnsserver.Query) (*dns.Msg, error)) handler {
		return handler{handle: func(_ context.Context, s *state, q *dnsserver.Query, _ rest) (*dns.Msg, error) { return answer(s, q) }}
	}
	r.order[clusterAt+1], r.order[anyAt] = end(other), end(cluster)
}

const clusterAt = 7

// TestEntries: the constants for entering the list name the right handlers.
func TestEntries(t *testing.T) {
	for at, name := range map[int]string{selfAt: "self", clusterAt: "cluster", anyAt: "minimal ANY", screenAt: "alias, bogus-nxdomain, stop-dns-rebind"} {
		if order[at].name != name {
			t.Errorf("entry %d is %s, want %s", at, order[at].name, name)
		}
	}
}

// TestWhoAnswers queries names in and around the cluster's zones, once with known cluster
// nameservers and once without any. Without them the answer is SERVFAIL with EDE 14 (Not Ready)
// naming the zone, and nothing goes to an upstream.
func TestWhoAnswers(t *testing.T) {
	cluster := domains("cluster.local", "30.172.in-addr.arpa", "0.8.b.d.1.0.0.2.ip6.arpa")
	nested := domains("sub.cluster.local", "cluster.local", "sub.other.local", "other.local")
	tests := []struct {
		name, ask string
		zones     []dnsname.Name
		zone      string // "" if none
	}{
		{"apex", "cluster.local.", cluster, "cluster.local."},
		{"below the apex", "kubernetes.default.svc.cluster.local.", cluster, "cluster.local."},
		{"in another case", "Kubernetes.Default.SVC.Cluster.LOCAL.", cluster, "cluster.local."},
		{"underscores", "_https._tcp.kubernetes.default.svc.cluster.local.", cluster, "cluster.local."},
		{"wildcard", "*.default.svc.cluster.local.", cluster, "cluster.local."},
		{"reverse zone", "1.0.30.172.in-addr.arpa.", cluster, "30.172.in-addr.arpa."},
		{"reverse apex", "30.172.in-addr.arpa.", cluster, "30.172.in-addr.arpa."},
		{"IPv6 reverse zone", "1.0.0.0.0.8.b.d.1.0.0.2.ip6.arpa.", cluster, "0.8.b.d.1.0.0.2.ip6.arpa."},
		// dnsname.Parse rejects such bytes, so the query has no Name. It used to go to the
		// upstream servers.
		{"blank in a label", `a\032b.default.svc.cluster.local.`, cluster, "cluster.local."},
		{"slash in a label of a reverse zone", "0/25.0.30.172.in-addr.arpa.", cluster, "30.172.in-addr.arpa."},
		{"bytes below an unusual label", `x.\195\164.cluster.local.`, cluster, "cluster.local."},
		{"dot in a label", `x\.cluster.local.`, cluster, ""},
		{"unusual bytes elsewhere", `a\032b.example.com.`, cluster, ""},
		{"above the apex", "local.", cluster, ""},
		{"next to the apex", "other.local.", cluster, ""},
		{"label that ends with the apex", "xcluster.local.", cluster, ""},
		{"apex in the middle", "cluster.local.example.com.", cluster, ""},
		{"another reverse zone", "1.0.31.172.in-addr.arpa.", cluster, ""},
		{"above the reverse zone", "172.in-addr.arpa.", cluster, ""},
		{"elsewhere", "www.example.com.", cluster, ""},
		{"root", ".", cluster, ""},
		{"no apexes", "kubernetes.default.svc.cluster.local.", nil, ""},
		{"root is the apex", "www.example.com.", domains("."), "."},
		{"root is the apex and the query name", ".", domains("."), "."},
		{"nested apexes", "a.sub.cluster.local.", nested, "sub.cluster.local."},
		{"nested apexes, reverse order", "a.sub.cluster.local.", domains("cluster.local", "sub.cluster.local"), "sub.cluster.local."},
		{"outer apex", "a.other.local.", nested, "other.local."},
	}
	r := still(t, "", nil)
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var from string
			says := func(who string) func(*state, *dnsserver.Query) (*dns.Msg, error) {
				return func(*state, *dnsserver.Query) (*dns.Msg, error) {
					from = who
					return nil, nil
				}
			}
			sides(r, says("cluster"), says("other"))
			want := map[bool]string{true: "cluster", false: "other"}[test.zone != ""]
			q := clientQuery("a.", "192.0.2.10")
			q.Msg.Question[0].Name = test.ask
			q.Name, _ = dnsname.Parse(test.ask)
			s := &state{Policy: &policy.Policy{Apexes: test.zones, ClusterDNS: policytest.Servers("192.0.2.52")}, zones: test.zones}
			if !q.Name.IsZero() && s.isOfZone([]byte(q.Name.String())) != (test.zone != "") {
				t.Error("isOfZone does not agree")
			}
			if _, err := (rest{r, s, clusterAt, false}).ServeDNS(t.Context(), q); err != nil || from != want {
				t.Errorf("with cluster nameservers: answered by %s, %v", from, err)
			}
			from, s.ClusterDNS = "", nil
			_, err := rest{r, s, clusterAt, false}.ServeDNS(t.Context(), q)
			if test.zone == "" {
				if err != nil || from != "other" {
					t.Errorf("without cluster nameservers: answered by %s, %v", from, err)
				}
				return
			}
			var extended *dnsserver.ExtendedError
			if !errors.As(err, &extended) || extended.Code != dns.ExtendedErrorCodeNotReady || extended.Text != "no cluster DNS server is known for "+test.zone || from != "" {
				t.Errorf("without cluster nameservers: answered by %s, %v", from, err)
			}
		})
	}
}

// TestErrorsStayHere: an error of the cluster's nameservers does not cause a query to an upstream.
func TestErrorsStayHere(t *testing.T) {
	away := errors.New("the cluster's nameserver is away")
	r := New(config(0), policyOf(t, "kubeconfig: none\nclusterDNS: [192.0.2.52]\n", ""))
	t.Cleanup(r.Close)
	sides(r, func(*state, *dnsserver.Query) (*dns.Msg, error) { return nil, away }, func(*state, *dnsserver.Query) (*dns.Msg, error) {
		t.Error("an upstream was queried")
		return nil, nil
	})
	if m, err := r.ServeDNS(t.Context(), clientQuery("a.cluster.local.", "192.0.2.10")); m != nil || !errors.Is(err, away) {
		t.Errorf("got %v, %v", m, err)
	}
}

// twoClusters returns policies with the cluster domains cluster.local and other.local.
func twoClusters(t *testing.T) (policies [2]*policy.Policy) {
	t.Helper()
	for i, domain := range []string{"cluster.local", "other.local"} {
		policies[i] = policyOf(t, "kubeconfig: none\nclusterDNS: [192.0.2.52]\nclusterDomain: "+domain+"\n", "")
	}
	return policies
}

// TestApplyLeavesQueriesUnderWay: a query that began under one Policy ends under it.
func TestApplyLeavesQueriesUnderWay(t *testing.T) {
	policies := twoClusters(t)
	began, end := make(chan struct{}), make(chan struct{})
	r := New(config(0), policies[0])
	t.Cleanup(r.Close)
	reply := func(s *state, text string) (*dns.Msg, error) {
		m := new(dns.Msg)
		m.Answer = append(m.Answer, &dns.TXT{Txt: []string{text, s.Config.ClusterDomain.String()}})
		return m, nil
	}
	sides(r, func(s *state, q *dnsserver.Query) (*dns.Msg, error) {
		if s.Policy == policies[0] {
			close(began)
			<-end
		}
		return reply(s, "cluster")
	}, func(s *state, q *dnsserver.Query) (*dns.Msg, error) { return reply(s, "other") })
	said := func(name string) string {
		m, err := r.ServeDNS(t.Context(), clientQuery(name, "192.0.2.10"))
		if err != nil {
			t.Error(err)
			return ""
		}
		texts := m.Answer[0].(*dns.TXT).Txt
		return texts[0] + " " + texts[1]
	}
	var group sync.WaitGroup
	group.Go(func() {
		if got := said("a.cluster.local."); got != "cluster cluster.local." {
			t.Errorf("query in flight: got %s", got)
		}
	})
	<-began
	r.Apply(policies[1])
	for name, want := range map[string]string{"a.cluster.local.": "other other.local.", "a.other.local.": "cluster other.local."} {
		if got := said(name); got != want {
			t.Errorf("%s after Apply: %s, want %s", name, got, want)
		}
	}
	close(end)
	group.Wait()
}

// TestApplyWhileServing replaces the Policy under load. Each query must see one complete Policy.
// With the first one's nameservers and the second one's zones, the nameservers would be queried for
// names that they do not know.
func TestApplyWhileServing(t *testing.T) {
	policies := twoClusters(t)
	r := New(config(0), policies[0])
	t.Cleanup(r.Close)
	sides(r, func(s *state, q *dnsserver.Query) (*dns.Msg, error) {
		if !q.Name.Within(s.Config.ClusterDomain) {
			t.Errorf("the nameservers of %s were queried for %s", s.Config.ClusterDomain, q.Name)
		}
		return new(dns.Msg), nil
	}, func(s *state, q *dnsserver.Query) (*dns.Msg, error) {
		if q.Name.Within(s.Config.ClusterDomain) {
			t.Errorf("%s left the cluster %s", q.Name, s.Config.ClusterDomain)
		}
		return new(dns.Msg), nil
	})
	done := make(chan struct{})
	var group sync.WaitGroup
	for _, name := range []string{"a.cluster.local.", "a.other.local."} {
		q := clientQuery(name, "192.0.2.10")
		group.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if _, err := r.ServeDNS(t.Context(), q); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for i := range 2000 {
		r.Apply(policies[i%2])
	}
	close(done)
	group.Wait()
}

// TestBecomesTheClusters: when a new Policy makes a name a cluster name, the site's nameservers are
// no longer queried for it, neither by the list nor, while the old list is still in use, by the
// forwarder.
func TestBecomesTheClusters(t *testing.T) {
	site := dnstest.NewServer(t, "a.other.local. 30 IN A 192.0.2.66\n")
	upstreams := "kubeconfig: none\nupstreams: [\"" + site.Addr().String() + "\"]\n"
	r := New(config(0), policyOf(t, upstreams, ""))
	t.Cleanup(r.Close)
	ask := func() (*dns.Msg, error) { return r.ServeDNS(t.Context(), clientQuery("a.other.local.", "192.0.2.10")) }
	if m, err := ask(); err != nil || len(m.Answer) != 1 {
		t.Fatalf("before Apply: got %v, error %v", m, err)
	}
	r.Apply(policyOf(t, upstreams+"clusterDomain: other.local\n", ""))
	if m, err := ask(); err == nil {
		t.Errorf("got %v", m)
	}
	if m, err := r.forward.ServeDNS(t.Context(), clientQuery("a.other.local.", "192.0.2.10")); err == nil {
		t.Errorf("the forwarder answered %v", m)
	}
	if n := site.QueriesFor("a.other.local.", dns.TypeA); n != 1 {
		t.Errorf("got %d queries, want 1", n)
	}
}
