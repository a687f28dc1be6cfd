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

// TestUpstreamTrial: the daemon is not ready after three failures in a row while another nameserver
// answers, and ready with the first answer.
func TestUpstreamTrial(t *testing.T) {
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
			var u upstreamTrial
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

// TestUpstreamTrialPauses: upstreams that do not answer get a question a minute at most, from each
// node.
func TestUpstreamTrialPauses(t *testing.T) {
	var u upstreamTrial
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

func isTriedOften(c *Config) { c.TrialInterval = 5 * time.Millisecond }

// TestReadyNeedsUpstreams: with upstreams that do not answer while the node's own nameserver does,
// the daemon is not ready, until the configuration is right. A later outage does not matter.
func TestReadyNeedsUpstreams(t *testing.T) {
	t.Parallel()
	site, another := dnstest.NewServer(t, resolverRecords), dnstest.NewServer(t, resolverRecords)
	dead := freeAddress(t)
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

// TestReadyInAnOutage: if no nameserver answers, the daemon is ready, as before: it is not at fault.
func TestReadyInAnOutage(t *testing.T) {
	t.Parallel()
	r, address := withMetrics(t, map[string]string{}, fmt.Sprintf("upstreams: ['%s']\n", freeAddress(t)), isTriedOften)
	r.await("it has tried", func() bool { return r.status().Routes[0].Servers[0].Failures > trialFailures })
	if code, body := r.get(address, "/ready"); code != http.StatusOK {
		t.Errorf("got %d %q", code, body)
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
