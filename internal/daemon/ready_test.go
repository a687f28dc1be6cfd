package daemon

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/test/dnstest"
	"github.com/node-dns/node-dns/internal/test/kubetest"
)

// resolverRecords are those of a recursive resolver, which knows the root.
const resolverRecords = siteRecords + ". 300 IN NS a.root-servers.net.\n"

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
	another.Down()
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
	r.await("it has tried", func() bool { return r.status().Routes[0].Servers[0].Failures > 3 })
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
