package daemon

import (
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
	"github.com/node-dns/node-dns/internal/intercept"
	"github.com/node-dns/node-dns/internal/policy"
	"github.com/node-dns/node-dns/internal/test/dnstest"
	"github.com/node-dns/node-dns/internal/test/kubetest"
	"github.com/node-dns/node-dns/internal/test/lab"
)

// TestReloadTakesOverEveryKey covers every key in packaging/node-dns.yaml, which lists all of them.
// dnsForwardMax used to take effect only after a restart. A new key fails the test until it has a
// row.
func TestReloadTakesOverEveryKey(t *testing.T) {
	t.Parallel()
	address, metricsAddress := dnstest.FreePort(t).String(), dnstest.FreePort(t).String()
	rows := map[string]struct {
		value string
		taken func(r *running) bool // whether the value is in force
	}{
		"listen": {address, func(r *running) bool {
			return slices.ContainsFunc(r.status().Listeners, func(l control.Listener) bool { return l.Address == address })
		}},
		"upstreams": {"[192.0.2.53]", func(r *running) bool { return slices.Equal(r.servers(), []string{"192.0.2.53"}) }},
		"routes": {"[{domain: corp.example, servers: [192.0.2.53]}]", func(r *running) bool {
			return slices.ContainsFunc(r.status().Routes, func(route control.Route) bool { return route.Domain == "corp.example." })
		}},
		"domainNeeded":  {"false", func(r *running) bool { return r.rcode(r.address(), "plain.") == dns.RcodeSuccess }},
		"clusterDomain": {"k8s.example", func(r *running) bool { return r.status().Cluster.Domain == "k8s.example." }},
		"clusterDNS":    {"[172.30.0.10]", func(r *running) bool { return slices.Equal(r.status().Cluster.Servers, []string{"172.30.0.10"}) }},
		"serviceCIDRs":  {"[172.20.0.0/16]", func(r *running) bool { return slices.Contains(r.status().Cluster.ReverseZones, "20.172.in-addr.arpa.") }},
		"podCIDRs":      {"[10.120.0.0/16]", func(r *running) bool { return slices.Contains(r.status().Cluster.ReverseZones, "120.10.in-addr.arpa.") }},
		"intercept": {"[10.96.0.10]", func(r *running) bool {
			data, _ := os.ReadFile(intercept.RequestFile(r.root)) // empty before the request
			return strings.Contains(string(data), "intercept 10.96.0.10\n")
		}},
		"nodeIP":    {"10.128.0.1", func(r *running) bool { return r.status().Node.IP == "10.128.0.1" }},
		"cacheSize": {"7", func(r *running) bool { return r.status().Cache.Size == 7 }},
		"dnsForwardMax": {"1", func(r *running) bool {
			site := dnstest.NewServer(r.t, siteRecords)            // for two concurrent queries
			site.SetFaults(dnstest.Faults{Delay: 4 * time.Second}) // within the time that a client waits
			write(r.t, filepath.Join(r.root, upstreamPath), upstreamFile(site))
			r.await("the slow upstream", func() bool { return slices.Equal(r.servers(), []string{site.Addr().String()}) })
			address := r.address()
			first := make(chan int)
			go func() {
				code := r.rcode(address, "one.example.")
				for site.QueriesFor("one.example.", dns.TypeA) == 0 && r.t.Context().Err() == nil {
					time.Sleep(10 * time.Millisecond) // the daemon's own check of its answers is the only query
					code = r.rcode(address, "one.example.")
				}
				first <- code
			}()
			r.await("the first question", func() bool { return site.QueriesFor("one.example.", dns.TypeA) > 0 })
			second := r.rcode(address, "two.example.")
			<-first
			return second == dns.RcodeServerFailure
		}},
		"kubeconfig": {"/run/another", func(r *running) bool {
			return strings.HasSuffix(r.daemon.policy().API.Kubeconfig, "/run/another")
		}},
		"nodeName":    {"node-7", func(r *running) bool { return r.daemon.policy().API.Node == "node-7" }},
		"autopath":    {"false", func(r *running) bool { return !r.daemon.policy().API.Features.NodePods }},
		"zoneProfile": {"openshift", func(r *running) bool { return r.clusterRcode("local.dns") == dns.RcodeSuccess }},
		"pods":        {"disabled", func(r *running) bool { return r.clusterRcode("10-0-0-1.shop.pod") == dns.RcodeNameError }},
		"endpointPodNames": {"true", func(r *running) bool {
			if !r.daemon.policy().API.Features.PodNames {
				return false
			}
			r.await("the names of pods, which are listed for this", func() bool { return r.clusterRcode("db-0.db.shop.svc") == dns.RcodeSuccess })
			return true
		}},
		"ignoreEmptyService": {"true", func(r *running) bool {
			return r.clusterRcode("empty.shop.svc") == dns.RcodeNameError && r.clusterRcode("web.shop.svc") == dns.RcodeSuccess
		}},
		"zonalNames":         {"true", func(r *running) bool { return r.clusterRcode("z.prefer._zone.db.shop.svc") == dns.RcodeSuccess }},
		"sameZoneFirst":      {"true", func(r *running) bool { return r.daemon.policy().API.Features.NodeZone }},
		"fromCluster":        {"true", func(r *running) bool { return r.daemon.policy().API.Features.Settings }},
		"namespaces":         {"[pay]", func(r *running) bool { return r.clusterRcode("web.shop.svc") == dns.RcodeNameError }},
		"clusterTTL":         {"77", func(r *running) bool { return r.cluster("web.shop.svc").Answer[0].Header().Ttl == 77 }},
		"clusterNegativeTTL": {"88", func(r *running) bool { return r.cluster("nowhere.shop.svc").Ns[0].Header().Ttl == 88 }},
		"snapshotMaxAge":     {"90", func(r *running) bool { return r.daemon.clusterConfig(policy.API{}).SnapshotMaxAge == 90*time.Second }},
		"clusterListen": {"['" + address + "']", func(r *running) bool {
			return slices.ContainsFunc(r.status().Listeners, func(l control.Listener) bool { return l.Address == address })
		}},
		"clusterClients": {"[192.0.2.0/24]", func(r *running) bool { return len(r.daemon.policy().Config.Resolver.Clients) > 0 }},
		"allowFrom": {"[203.0.113.0/24]", func(r *running) bool {
			return slices.Equal(r.status().Clients.Networks, []string{"203.0.113.0/24"})
		}},
		"clientRateLimit": {"100", func(r *running) bool { return r.status().Clients.RateLimit == 100 }},
		"resolvConf": {"none", func(r *running) bool {
			return r.status().ResolvConf.Hold == "resolvConf: none in /etc/node-dns/node-dns.yaml"
		}},
		"serveStale":   {"7", func(r *running) bool { return r.daemon.policy().Settings.Stale == 7 }},
		"prefetch":     {"false", func(r *running) bool { return !r.daemon.policy().Settings.Prefetch }},
		"cookies":      {"true", func(r *running) bool { return r.daemon.policy().Settings.UDP.Cookies && r.asks(withCookie) }},
		"useCapsForID": {"true", func(r *running) bool { return r.asks(withCapital) }},
		"dnsOverTLS": {"opportunistic", func(r *running) bool {
			if r.transport() == "" {
				return false
			}
			r.await("the connection", func() bool { return r.asksOverTLS() })
			return true
		}},
		"dbus": {"none", func(r *running) bool { return r.status().Bus == nil }},
		"metrics": {"{address: '" + metricsAddress + "', namespace: coredns}", func(r *running) bool {
			if r.daemon.policy().Metrics.Address.String() != metricsAddress {
				return false
			}
			r.await("metrics", func() bool { return len(r.metric(metricsAddress, "/metrics", "coredns_dns_requests_total")) > 0 })
			return true
		}},
		"logLevel": {"debug", func(r *running) bool { return r.daemon.config.Level.Level() == slog.LevelDebug }},
	}
	for _, key := range keysOf(t, "../../packaging/node-dns.yaml") {
		t.Run(key, func(t *testing.T) {
			t.Parallel()
			row, ok := rows[key]
			if !ok {
				t.Fatal("no row checks that a reload applies this key")
			}
			site := dnstest.NewServer(t, siteRecords+"plain. 300 IN A 192.0.2.80\n")
			api := kubetest.NewServer(t)
			api.Apply(shop)
			files := map[string]string{upstreamPath: upstreamFile(site), kubeconfigPath: string(api.Kubeconfig())}
			r := start(t, files, func(c *Config) {
				c.Level = new(slog.LevelVar)
				if key == "dnsOverTLS" {
					secure := dnstest.NewTLSServer(t, siteRecords).Addr()
					c.TLSAddr = func(nameserver.Server) (netip.AddrPort, bool) { return secure, true }
				}
				if key == "dbus" {
					b := lab.NewPrivateBus(t)
					b.Start()
					c.Bus = b.Address()
				}
				if key == "listen" || key == "clusterListen" || key == "clusterClients" {
					c.Listen = nil
				}
			})
			r.synced()
			if row.taken(r) {
				t.Fatal("in force before it is set: the row proves nothing")
			}
			write(t, filepath.Join(r.root, "/etc/node-dns/node-dns.yaml"), key+": "+row.value+"\n")
			if err := r.daemon.reload(t.Context()); err != nil {
				t.Fatal(err)
			}
			if !row.taken(r) {
				t.Errorf("has no effect: %+v", r.status())
			}
		})
	}
}

// asks makes the daemon query an upstream, and reports whether is returns true for one of the
// queries.
func (r *running) asks(is func(*dns.Msg) bool) bool {
	site := dnstest.NewServer(r.t, siteRecords)
	write(r.t, filepath.Join(r.root, upstreamPath), upstreamFile(site))
	r.await("the upstream", func() bool { return slices.Equal(r.servers(), []string{site.Addr().String()}) })
	const name = "a-name-of-many-letters.example."
	m := r.exchange(r.address(), name)
	if m == nil || m.Question[0].Name != name {
		r.t.Errorf("answered with %v", m)
	}
	return slices.ContainsFunc(site.Received(), func(q dnstest.Query) bool { return is(q.Msg) })
}

func withCookie(m *dns.Msg) bool {
	opt := m.IsEdns0()
	return opt != nil && slices.ContainsFunc(opt.Option, func(o dns.EDNS0) bool { return o.Option() == dns.EDNS0COOKIE })
}

func withCapital(m *dns.Msg) bool {
	return m.Question[0].Name != strings.ToLower(m.Question[0].Name)
}

// keysOf returns the keys that a commented file names.
func keysOf(t *testing.T, path string) []string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for _, match := range regexp.MustCompile(`(?m)^#([a-zA-Z]+):`).FindAllStringSubmatch(string(text), -1) {
		keys = append(keys, match[1])
	}
	if len(keys) < 12 {
		t.Fatalf("found only the keys %v", keys)
	}
	return keys
}

// rcode returns the rcode of an address query at the daemon's listener, or -1 without a response.
func (r *running) rcode(at netip.AddrPort, name string) int {
	if m := r.exchange(at, name); m != nil {
		return m.Rcode
	}
	return -1
}

// exchange sends an address query. It returns nil if there is no response.
func (r *running) exchange(at netip.AddrPort, name string) *dns.Msg {
	client := dns.Client{Timeout: 20 * time.Second}
	m, _, err := client.Exchange(new(dns.Msg).SetQuestion(name, dns.TypeA), at.String())
	if err != nil {
		r.t.Errorf("%s: %v", name, err)
		return nil
	}
	return m
}
