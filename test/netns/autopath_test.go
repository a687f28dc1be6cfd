package netns

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/test/dnstest"
)

// outcome is the result of a lookup in a pod.
type outcome struct {
	found   string // printed by lookup
	plain   int    // queries that the pod sends without autopath; 0 if that depends on timing
	walked  int    // queries with autopath
	forward string // names that the site is queried for
}

// search is a lookup of a name.
type search struct {
	name string
	outcome
	but map[string]outcome // other outcomes by library
}

// lookups are the lookups of a pod in namespace shop, in order, because earlier results are cached.
var lookups = []search{
	{name: "google.com", outcome: outcome{"google.com 192.0.2.1 2001:db8::1", 10, 2, "google.com.example.com google.com"}},
	{name: "google.com.", outcome: outcome{"google.com 192.0.2.1 2001:db8::1", 2, 2, ""}},
	{
		name: "www.google.com", outcome: outcome{"google.com 192.0.2.1 2001:db8::1", 10, 2, "www.google.com.example.com www.google.com"},
	},
	{name: "v4.example.org", outcome: outcome{"v4.example.org 192.0.2.4", 10, 2, "v4.example.org.example.com v4.example.org"}},
	{name: "v6.example.org", outcome: outcome{"v6.example.org 2001:db8::6", 10, 2, "v6.example.org.example.com v6.example.org"}},
	{name: "web", outcome: outcome{"web.shop.svc.cluster.local 172.30.0.9", 2, 2, ""}},
	{name: "web.pay", outcome: outcome{"web.pay.svc.cluster.local 172.30.0.10 fd30::a", 4, 2, ""}},
	{name: "web.pay.svc", outcome: outcome{"web.pay.svc.cluster.local 172.30.0.10 fd30::a", 6, 2, ""}},
	{name: "printer", outcome: outcome{"printer.example.com 192.0.2.9", 8, 2, "printer.example.com"}},
	{name: "nowhere.example.org", outcome: outcome{"none", 10, 10, "nowhere.example.org.example.com nowhere.example.org"}},
	{name: "nowhere", outcome: outcome{"none", 10, 10, "nowhere.example.com"}}, // domainNeeded
	{
		// An ExternalName service. Its target has no address, and the site has alias.example.com.
		name: "alias", outcome: outcome{"none", 2, 2, "txt.example.org"},
		but: map[string]outcome{"go": {"alias.example.com 192.0.2.66", 8, 8, "alias.example.com txt.example.org"}},
	},
	{name: "txt.example.org", outcome: outcome{"none", 10, 10, "txt.example.org.example.com"}},
	{
		// The name of a namespace exists without an address: pay.svc.cluster.local. musl stops its
		// search there.
		name: "pay", outcome: outcome{"pay.example.com 192.0.2.11", 8, 8, "pay.example.com"},
		but: map[string]outcome{"musl": {"none", 4, 4, ""}},
	},
	{
		// The nameserver fails for the site's domain, so it is queried again. musl stops its search
		// after its timeout.
		name: "down.example.org", outcome: outcome{"down.example.org 192.0.2.67", 12, 12, "down.example.org.example.com down.example.org"},
		but: map[string]outcome{"musl": {"again", 0, 0, "down.example.org.example.com"}},
	},
}

// TestAutopath uses the resolver libraries of pods. With autopath each library must find the same
// as without it, the site must get queries for the same names, and the pod must send as few queries
// as possible.
func TestAutopath(t *testing.T) {
	for _, lib := range libraries {
		for _, on := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/%v", lib.name, on), func(t *testing.T) { testAutopath(t, lib, on) })
		}
	}
}

func testAutopath(t *testing.T, lib library, on bool) {
	program := lib.program(t)
	n := newPodNode(t, podCluster, podSite, fmt.Sprintf("autopath: %v\n", on))
	n.site.SetFaultsFor("down.example.org.example.com.", dnstest.Faults{Rcode: dns.RcodeServerFailure})
	for _, test := range lookups {
		want := test.outcome
		if other, ok := test.but[lib.name]; ok {
			want = other
		}
		if _, addrs, ok := strings.Cut(want.found, " "); ok && lib.name == "go" {
			want.found = addrs
		}
		if want.found == "again" {
			n.setOptions("ndots:5 timeout:1") // musl waits that long, and its queries are not counted
		}
		n.check(test.name, on, want, func() string { return n.lookup(program, 1, test.name) })
	}
	if lib.name == "glibc" {
		n.checkGetent(on)
	}
}

func (n *podNode) check(name string, on bool, want outcome, lookup func() string) {
	n.t.Helper()
	sent, forwarded := n.queries(), len(n.site.Received())
	found := lookup()
	if found != want.found {
		n.t.Errorf("%s: found %q, want %q", name, found, want.found)
	}
	count := want.plain
	if on {
		count = want.walked
	}
	if got := n.queries() - sent; got != count && count > 0 {
		n.t.Errorf("%s: %d queries, want %d", name, got, count)
	}
	var all []string
	for _, asked := range strings.Fields(want.forward) {
		all = append(all, asked+". A", asked+". AAAA")
	}
	slices.Sort(all)
	if diff := cmp.Diff(all, n.forwarded(forwarded)); diff != "" {
		n.t.Errorf("%s: the site received\n%s", name, diff)
	}
}

// checkGetent does lookups with getent, which is on every node and in most images.
func (n *podNode) checkGetent(on bool) {
	n.t.Helper()
	n.check("google.com", on, outcome{"2001:db8::1 192.0.2.1", 10, 2, ""}, func() string {
		var addrs []string
		for line := range strings.Lines(n.pod.Run("getent", "ahosts", "google.com")) {
			addrs = append(addrs, strings.Fields(line)[0])
		}
		return strings.Join(slices.Compact(addrs), " ")
	})
}

const podSite = `
	google.com. A 192.0.2.1
	google.com. AAAA 2001:db8::1
	www.google.com. CNAME google.com.
	*.far.example.org. A 192.0.2.1
	*.far.example.org. AAAA 2001:db8::1
	v4.example.org. A 192.0.2.4
	v6.example.org. AAAA 2001:db8::6
	txt.example.org. TXT x
	down.example.org. A 192.0.2.67
	printer.example.com. A 192.0.2.9
	alias.example.com. A 192.0.2.66
	pay.example.com. A 192.0.2.11
`

const podCluster = `
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: v1
kind: Namespace
metadata: {name: pay}
---
apiVersion: v1
kind: Service
metadata: {name: kubernetes, namespace: default}
spec: {clusterIP: 172.30.0.1, clusterIPs: [172.30.0.1], ports: [{name: https, port: 443}]}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {clusterIP: 172.30.0.9, clusterIPs: [172.30.0.9], selector: {app: web}, ports: [{name: http, port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: pay}
spec: {clusterIP: 172.30.0.10, clusterIPs: [172.30.0.10, "fd30::a"], selector: {app: web}, ports: [{name: http, port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: alias, namespace: shop}
spec: {type: ExternalName, externalName: txt.example.org}
---
apiVersion: v1
kind: Pod
metadata: {name: shell, namespace: shop}
spec: {nodeName: node-7, containers: []}
status: {phase: Running, podIPs: [{ip: 10.128.0.41}]}
`

// BenchmarkAutopath measures what docs/howto/autopath.md shows: one process of a pod looks up
// google.com repeatedly, or distinct external names that no client has queried before, from a
// nameserver 10 ms away.
func BenchmarkAutopath(b *testing.B) {
	for _, lib := range libraries {
		for _, far := range []bool{false, true} {
			for _, on := range []bool{false, true} {
				b.Run(fmt.Sprintf("lib=%s/far=%v/autopath=%v", lib.name, far, on), func(b *testing.B) { benchmarkAutopath(b, lib, far, on) })
			}
		}
	}
}

func benchmarkAutopath(b *testing.B, lib library, far, on bool) {
	program := lib.program(b)
	n := newPodNode(b, podCluster, podSite, fmt.Sprintf("autopath: %v\n", on))
	n.lookup(program, 1, "google.com")
	name := "google.com"
	if far {
		n.site.SetFaults(dnstest.Faults{Delay: 10 * time.Millisecond})
		name = "h%.far.example.org"
	}
	before := n.queries()
	b.ResetTimer()
	found := n.lookup(program, b.N, name)
	b.StopTimer()
	if !strings.HasSuffix(found, "192.0.2.1 2001:db8::1") {
		b.Fatalf("found %q", found)
	}
	b.ReportMetric(float64(n.queries()-before)/float64(b.N), "queries/op")
}
