package daemon

import (
	"fmt"
	"net/http"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
	"github.com/node-dns/node-dns/internal/policy"
	"github.com/node-dns/node-dns/internal/test/dnstest"
	"github.com/node-dns/node-dns/internal/test/kubetest"
	"github.com/node-dns/node-dns/internal/test/policytest"
	"github.com/node-dns/node-dns/internal/upstream"
)

// resolverRecords are those of a recursive resolver, which knows the root.
const resolverRecords = siteRecords + ". 300 IN NS a.root-servers.net.\n"

// TestRouteTrial: the daemon is not ready after three failures in a row while another nameserver
// answers, and ready with the first answer.
func TestRouteTrial(t *testing.T) {
	const other = "192.0.2.1"
	type step struct {
		isAnswered bool
		reference  string
	}
	for _, test := range []struct {
		name  string
		steps []step
		want  string // r for ready and n for not ready, after each step
	}{
		{"the upstreams answer", []step{{true, ""}}, "r"},
		{"a slow start", []step{{false, ""}, {false, ""}, {true, ""}}, "rrr"},
		{"only the node's own nameserver answers", []step{{false, other}, {false, other}, {false, other}, {false, other}}, "rrnn"},
		{"an outage that began before", []step{{false, ""}, {false, ""}, {false, ""}, {false, ""}}, "rrrr"},
		{"the outage ends, but not through node-dns", []step{{false, ""}, {false, ""}, {false, ""}, {false, other}}, "rrrn"},
		{"the failure ends", []step{{false, other}, {false, other}, {false, other}, {true, ""}}, "rrnr"},
		{"one lost response of the other nameserver", []step{{false, other}, {false, other}, {false, other}, {false, ""}, {false, other}}, "rrnnn"},
		{"the other nameserver fails too", []step{{false, other}, {false, other}, {false, other}, {false, ""}, {false, ""}, {false, ""}}, "rrnnnr"},
	} {
		t.Run(test.name, func(t *testing.T) {
			u := trialRoute{target: target{domain: dnsname.Root()}}
			got, now := "", time.Unix(0, 0)
			for _, s := range test.steps {
				u.note(now, s.isAnswered, "SERVFAIL", s.reference)
				got += map[bool]string{true: "r", false: "n"}[u.verdict == ""]
			}
			if got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

// TestRouteTrialPauses: nameservers that do not answer get a question a minute at most, from each
// node.
func TestRouteTrialPauses(t *testing.T) {
	var u trialRoute
	now := time.Unix(0, 0)
	for i, want := range []time.Duration{0, 0, 5, 10, 20, 40, 60, 60, 60, 60, 60, 60, 60, 60, 60} {
		u.note(now, false, "SERVFAIL", "")
		got := time.Duration(0)
		if !u.next.IsZero() {
			got = u.next.Sub(now)
		}
		if got != want*time.Second {
			t.Errorf("after %d failures: %v, want %v", i+1, got, want*time.Second)
		}
	}
}

// TestTrialRoutes: each route is asked, and compared with its own nameservers. Only a route of
// node-dns.yaml, which a rollout may change, is also compared with the node's nameservers without
// it.
func TestTrialRoutes(t *testing.T) {
	const wider = " or 10.0.0.2?"
	many := ""
	for i := range 2 * maxTrials {
		many += fmt.Sprintf("- {domain: r%d.test, servers: [192.0.2.1]}\n", i)
	}
	host := upstream.Set{Servers: policytest.Servers("10.0.0.2")}
	corp := upstream.Route{Domain: dnsname.MustParse("corp.test"), Servers: policytest.Servers("10.0.0.9")}
	vpn := upstream.Set{Servers: host.Servers, Routes: []upstream.Route{corp}}
	for _, test := range []struct {
		name, nodeDNS, dnsmasq string
		captured               upstream.Set
		want                   []string // "DOMAIN TYPE: REFERENCE or ..."; "?" follows one that must know the name
	}{
		{"the node's nameserver", "", "", host, []string{". NS: 10.0.0.2"}},
		{"no nameserver", "", "", upstream.Set{}, nil},
		{"upstreams", "upstreams: [10.0.0.3]", "", host, []string{". NS: 10.0.0.3 or 10.0.0.2"}},
		{"over TLS", "upstreams: ['dns+tls://10.0.0.3#dns.test']", "", host, []string{". NS: 10.0.0.2"}},
		{"the same nameserver twice", "upstreams: [10.0.0.2]", "", host, []string{". NS: 10.0.0.2"}},
		{"a route", "routes: [{domain: corp.test, servers: [10.0.0.4, 10.0.0.5]}]", "", host, []string{". NS: 10.0.0.2", "corp.test. SOA: 10.0.0.4 or 10.0.0.5" + wider}},
		{"a route over TLS", "routes: [{domain: corp.test, servers: ['dns+tls://10.0.0.4#dns.test']}]", "", host, []string{". NS: 10.0.0.2", "corp.test. SOA:" + wider}},
		{"a route that wins over NetworkManager's", "routes: [{domain: corp.test, servers: [10.0.0.4]}]", "", vpn, []string{". NS: 10.0.0.2", "corp.test. SOA: 10.0.0.4 or 10.0.0.9?" + wider}},
		{"a route and upstreams", "upstreams: [10.0.0.3]\nroutes: [{domain: corp.test, servers: [10.0.0.4]}]", "", host, []string{". NS: 10.0.0.3 or 10.0.0.2", "corp.test. SOA: 10.0.0.4 or 10.0.0.3?" + wider}},
		{"NetworkManager's route", "", "", vpn, []string{". NS: 10.0.0.2", "corp.test. SOA: 10.0.0.9"}},
		{"dnsmasq's routes", "", "server=/corp.test/10.0.0.4\nserver=//10.0.0.4\nlocal=/lab.test/\nserver=/www.corp.test/#\n", host, []string{". NS: 10.0.0.2", "corp.test. SOA: 10.0.0.4"}},
		{"the cluster's nameserver", "clusterDNS: [10.96.0.10]", "", host, []string{". NS: 10.0.0.2"}},
		{"a nameserver that is this node", "routes: [{domain: corp.test, servers: [192.0.2.10]}]", "", host, []string{". NS: 10.0.0.2"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := trialTexts(policy.New(policy.Inputs{
				Config: policytest.Config(t, test.nodeDNS+"\n", ""), Net: policytest.Node(), Dnsmasq: policytest.Dnsmasq(t, test.dnsmasq),
				Captured: test.captured, From: nameserver.NetworkManager,
			}))
			if d := cmp.Diff(test.want, got); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
		})
	}
	t.Run("many", func(t *testing.T) {
		got := trialTexts(policy.New(policy.Inputs{Config: policytest.Config(t, "routes:\n"+many, ""), Net: policytest.Node(), Captured: host, From: nameserver.NetworkManager}))
		if len(got) != maxTrials || got[0] != ". NS: 10.0.0.2" {
			t.Errorf("got %d routes, want %d, the root first: %q", len(got), maxTrials, got)
		}
	})
}

// trialTexts formats the routes to ask.
func trialTexts(p *policy.Policy) (texts []string) {
	for _, r := range targetsOf(p) {
		name, qtype := r.question()
		text, sep := fmt.Sprintf("%s %s:", name, dns.TypeToString[qtype]), " "
		for _, ref := range r.references {
			if ref.isOther && sep == " " {
				sep = " or "
			}
			text += sep + ref.server.String()
			if ref.isOther {
				text += "?"
			}
			sep = " or "
		}
		texts = append(texts, text)
	}
	return texts
}

// TestKeepTrials: a route keeps its state until its nameservers change.
func TestKeepTrials(t *testing.T) {
	corp := target{domain: dnsname.MustParse("corp.test"), servers: policytest.Servers("10.0.0.4")}
	moved := target{domain: corp.domain, servers: policytest.Servers("10.0.0.5")}
	again := target{domain: corp.domain, servers: corp.servers, references: []reference{{server: nameserver.MustParse("10.0.0.2"), isOther: true}}}
	lab := target{domain: dnsname.MustParse("lab.test"), servers: corp.servers}
	before := []*trialRoute{{target: corp, isPassed: true}}
	for _, test := range []struct {
		name   string
		routes []target
		want   []*trialRoute
	}{
		{"the same", []target{corp}, []*trialRoute{{target: corp, isPassed: true}}},
		{"other references", []target{again}, []*trialRoute{{target: again, isPassed: true}}},
		{"other nameservers", []target{moved}, []*trialRoute{{target: moved}}},
		{"another domain", []target{lab, corp}, []*trialRoute{{target: lab}, {target: corp, isPassed: true}}},
		{"gone", nil, []*trialRoute{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := keepTrials(before, test.routes); !reflect.DeepEqual(got, test.want) {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

func isTriedOften(c *Config) { c.TrialInterval = 5 * time.Millisecond }

// TestReadyNeedsUpstreams: with upstreams that do not answer while the node's own nameserver does,
// the daemon is not ready, until the configuration is right. A later outage does not matter.
func TestReadyNeedsUpstreams(t *testing.T) {
	t.Parallel()
	site, another := dnstest.NewServer(t, resolverRecords), dnstest.NewServer(t, resolverRecords)
	const dead = "127.0.0.1:1" // a port that no other test takes
	r, address := withMetrics(t, map[string]string{upstreamPath: upstreamFile(site)}, fmt.Sprintf("upstreams: ['%s']\n", dead), isTriedOften)
	ready := func() bool {
		code, _ := r.get(address, "/ready")
		return code == http.StatusOK
	}
	r.await("it is not ready", func() bool { return !ready() })
	want := fmt.Sprintf("the upstream nameservers do not answer through node-dns (SERVFAIL), but %s answers\n", site.Addr())
	if code, body := r.get(address, "/ready"); code != http.StatusServiceUnavailable || body != want {
		t.Errorf("got %d %q, want %q", code, body, want)
	}
	if code, _ := r.get(address, "/health"); code != http.StatusOK {
		t.Errorf("/health: %d: the kubelet would restart the container", code)
	}
	if s := r.status(); s.Ready || !strings.Contains(strings.Join(s.Problems, "\n"), strings.TrimSpace(want)) {
		t.Errorf("the status is ready: %v, problems %q", s.Ready, s.Problems)
	}
	if q := r.status().Queries; q.UDP+q.TCP != 0 {
		t.Errorf("questions are counted as a client's: %+v", q)
	}

	write(t, filepath.Join(r.root, "/etc/node-dns/node-dns.yaml"), fmt.Sprintf("metrics: {address: '%s'}\nupstreams: ['%s']\n", address, another.Addr()))
	r.await("it is ready", ready)
	another.Close()
	if m := dnstest.Exchange(t, r.address(), "www.example.com.", dns.TypeA); m.Rcode != dns.RcodeServerFailure {
		t.Fatalf("during the outage: %v", m)
	}
	for range 50 {
		time.Sleep(10 * time.Millisecond) // two intervals
		if !ready() {
			t.Fatal("a later outage makes it not ready")
		}
	}
}

// TestReadyInAnOutage: if no nameserver answers, the daemon is ready, as before: it is not at
// fault.
func TestReadyInAnOutage(t *testing.T) {
	t.Parallel()
	r, address := withMetrics(t, map[string]string{}, "upstreams: ['127.0.0.1:1']\n", isTriedOften)
	r.await("it has tried", func() bool { return r.status().Routes[0].Servers[0].Failures > trialFailures })
	if code, body := r.get(address, "/ready"); code != http.StatusOK {
		t.Errorf("got %d %q", code, body)
	}
}

// TestReadyNeedsRoutes: a route whose names do not resolve makes the daemon not ready if the node
// resolves them without the route, or if the route's nameserver answers directly. A nameserver that
// is down for all nodes does not.
func TestReadyNeedsRoutes(t *testing.T) {
	const soa = "corp.test. 300 IN SOA ns.corp.test. admin.corp.test. 1 3600 600 86400 300\n"
	for _, test := range []struct {
		name    string
		site    string // the node's nameserver's further records
		server  string // the route's nameserver: "down", "refuses", or "answers"
		isReady bool
	}{
		{"the route's nameserver answers", "", "answers", true},
		{"it is the wrong one: the node's nameserver knows the domain", soa, "down", false},
		{"it refuses the domain, which the node's nameserver knows", soa, "refuses", false},
		{"it is down, and no other nameserver knows the domain", "", "down", true},
		{"it refuses the domain, which no other nameserver knows", "", "refuses", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			site, server := dnstest.NewServer(t, resolverRecords+test.site), dnstest.NewServer(t, soa)
			switch test.server {
			case "down":
				server.Down()
			case "refuses":
				server.SetFaults(dnstest.Faults{Rcode: dns.RcodeRefused})
			}
			r, address := withMetrics(t, map[string]string{upstreamPath: upstreamFile(site)},
				fmt.Sprintf("routes: [{domain: corp.test, servers: ['%s']}]\n", server.Addr()), isTriedOften)
			body := func() string {
				_, text := r.get(address, "/ready")
				return text
			}
			if test.isReady {
				r.await("it has been tried", func() bool {
					return site.QueriesFor("corp.test.", dns.TypeSOA) > 0 || test.server == "answers" && server.QueriesFor("corp.test.", dns.TypeSOA) > 0
				})
				r.awaitTrials()
				if got := body(); got != "OK\n" {
					t.Errorf("not ready: %q", got)
				}
				return
			}
			rcode := map[string]string{"down": "SERVFAIL", "refuses": "REFUSED"}[test.server]
			want := fmt.Sprintf("the nameservers of corp.test. do not answer through node-dns (%s), but %s answers\n", rcode, site.Addr())
			r.await("it is not ready", func() bool { return body() == want })
			if test.server == "down" {
				if err := server.Up(); err != nil {
					t.Fatal(err)
				}
				r.await("a client's query makes it ready", func() bool {
					r.rcode(r.address(), "www.corp.test.")
					return body() == "OK\n"
				})
			}
		})
	}
}

// awaitTrials waits until a round of end-to-end questions has begun and ended.
func (r *running) awaitTrials() {
	r.t.Helper()
	for range 2 {
		before := r.daemon.view.Failing.Load()
		r.await("the end of a round", func() bool { return r.daemon.view.Failing.Load() != before })
	}
}

// TestReadyNeedsClusterNames: a daemon that cannot answer the API's name is not ready.
func TestReadyNeedsClusterNames(t *testing.T) {
	t.Parallel()
	api, site := kubetest.NewServer(t), dnstest.NewServer(t, resolverRecords)
	apply := func(spec string) {
		api.Apply("apiVersion: v1\nkind: Service\nmetadata: {namespace: default, name: kubernetes}\nspec: " + spec + "\n")
	}
	api.Apply(shop)
	r, address := withMetrics(t, map[string]string{upstreamPath: upstreamFile(site), kubeconfigPath: string(api.Kubeconfig())}, "", isTriedOften)
	is := func(code int, body string) func() bool {
		return func() bool {
			gotCode, got := r.get(address, "/ready")
			return gotCode == code && got == body
		}
	}
	r.synced()
	apply("{type: ExternalName, externalName: kubernetes.default.svc.cluster.local}") // a loop
	r.await("it is not ready", is(http.StatusServiceUnavailable, "kubernetes.default.svc.cluster.local. fails: SERVFAIL\n"))
	apply("{clusterIP: 10.96.0.1, clusterIPs: [10.96.0.1], type: ClusterIP}")
	r.await("it is ready", is(http.StatusOK, "OK\n"))
}
