package daemon

import (
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/test/dnstest"
	"github.com/node-dns/node-dns/internal/test/kubetest"
)

const kubeconfigPath = "/etc/node-dns/kubeconfig"

// shop is a small cluster.
const shop = `
apiVersion: v1
kind: Namespace
metadata: {name: default}
---
apiVersion: v1
kind: Namespace
metadata: {name: shop}
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
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-1, namespace: shop, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
endpoints: [{addresses: [10.128.0.21]}]
---
apiVersion: v1
kind: Service
metadata: {name: empty, namespace: shop}
spec: {clusterIP: 172.30.0.10, clusterIPs: [172.30.0.10], selector: {app: none}, ports: [{port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: db, namespace: shop}
spec: {clusterIP: None, clusterIPs: [None], selector: {app: db}, ports: [{name: sql, port: 5432}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: db-1, namespace: shop, labels: {kubernetes.io/service-name: db, service.kubernetes.io/headless: ""}}
addressType: IPv4
endpoints: [{addresses: [10.128.0.31], targetRef: {kind: Pod, name: db-0, namespace: shop}}]
---
apiVersion: v1
kind: Service
metadata: {name: site, namespace: shop}
spec: {type: ExternalName, externalName: www.example.com}
---
apiVersion: v1
kind: Service
metadata: {name: here, namespace: shop}
spec: {type: ExternalName, externalName: localhost}
---
apiVersion: v1
kind: Service
metadata: {name: plain, namespace: shop}
spec: {type: ExternalName, externalName: printer}
---
apiVersion: v1
kind: Pod
metadata: {name: shell, namespace: shop}
spec: {nodeName: node-7, containers: []}
status: {phase: Running, podIPs: [{ip: 10.128.0.41}]}
---
apiVersion: v1
kind: Pod
metadata: {name: own, namespace: shop}
spec: {nodeName: node-7, dnsConfig: {searches: [corp.example.com]}, containers: []}
status: {phase: Running, podIPs: [{ip: 10.128.0.43}]}
`

// cluster queries the address of a name in the cluster domain.
func (r *running) cluster(name string) *dns.Msg {
	r.t.Helper()
	return dnstest.Exchange(r.t, r.address(), name+".cluster.local.", dns.TypeA)
}

func (r *running) clusterRcode(name string) int {
	r.t.Helper()
	return r.cluster(name).Rcode
}

// synced waits until the API has been read.
func (r *running) synced() {
	r.t.Helper()
	r.await("the API has been read", func() bool {
		c := r.status().Cluster
		return c.Resolver != nil && c.Resolver.Phase == "synced"
	})
}

// TestAnswersFromTheAPI: with a kubeconfig, the cluster's names and the reverse names of its pods
// are answered from the watched objects. No query causes a request to the site's nameservers or to
// the API.
func TestAnswersFromTheAPI(t *testing.T) {
	t.Parallel()
	api, site := kubetest.NewServer(t), dnstest.NewServer(t, siteRecords+"web.shop.svc.cluster.local. 30 IN A 192.0.2.66\n")
	api.Apply(shop)
	r := start(t, map[string]string{kubeconfigPath: string(api.Kubeconfig()), upstreamPath: upstreamFile(site)})
	r.synced()
	lists := func() (n int) {
		for _, request := range api.Requests() {
			if !request.Watch && request.Path != "/healthz" {
				n++
			}
		}
		return n
	}
	listed := lists()
	for reverse, want := range map[string]string{
		"21.0.128.10.in-addr.arpa.": "10-128-0-21.web.shop.svc.cluster.local.",
		"31.0.128.10.in-addr.arpa.": "10-128-0-31.db.shop.svc.cluster.local.",
	} {
		if diff := dnstest.Diff(reverse+" 5 PTR "+want, without(dnstest.Exchange(t, r.address(), reverse, dns.TypePTR))); diff != "" {
			t.Errorf("%s:\n%s", reverse, diff)
		}
		if n := site.QueriesFor(reverse, dns.TypePTR); n > 0 {
			t.Errorf("%s was sent to the site", reverse)
		}
	}
	for name, want := range map[string]string{
		"web.shop.svc":     "web.shop.svc.cluster.local. 5 A 172.30.0.9",
		"db.shop.svc":      "db.shop.svc.cluster.local. 5 A 10.128.0.31",
		"nowhere.shop.svc": ";; NXDOMAIN",
		"site.shop.svc":    "site.shop.svc.cluster.local. 5 CNAME www.example.com.\nwww.example.com. 300 A 192.0.2.80",
		// A name that is never forwarded for clients is not forwarded for an ExternalName service
		// either.
		"here.shop.svc":            "here.shop.svc.cluster.local. 5 CNAME localhost.\nlocalhost. 3600 A 127.0.0.1",
		"plain.shop.svc":           "plain.shop.svc.cluster.local. 5 CNAME printer.\n;; NXDOMAIN",
		"10-128-0-21.web.shop.svc": "10-128-0-21.web.shop.svc.cluster.local. 5 A 10.128.0.21",
	} {
		if diff := dnstest.Diff(want, without(r.cluster(name))); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
	}
	for _, name := range []string{"web.shop.svc.cluster.local.", "localhost.", "printer."} {
		if n := site.QueriesFor(name, dns.TypeA); n > 0 {
			t.Errorf("%s was sent to the site", name)
		}
	}
	if n := lists(); n != listed {
		t.Errorf("%d lists before the queries, %d after", listed, n)
	}
	api.Delete("Service", "shop", "web")
	r.await("the service is gone", func() bool { return r.clusterRcode("web.shop.svc") == dns.RcodeNameError })
}

// without removes the SOA record of a negative answer, which contains the time.
func without(m *dns.Msg) *dns.Msg {
	m.Ns = nil
	return m
}

// TestBootstrap: the kubeconfig of a node appears later, and at the next start its API server is
// down.
func TestBootstrap(t *testing.T) {
	t.Parallel()
	api := kubetest.NewServer(t)
	api.Apply(shop)
	path := "/etc/origin/node/node.kubeconfig"
	files := map[string]string{
		"/etc/origin/node/node-config.yaml": "kind: NodeConfig\napiVersion: v1\nmasterKubeConfig: node.kubeconfig\n",
		upstreamPath:                        upstreamFile(dnstest.NewServer(t, siteRecords)),
	}
	r := start(t, files)
	m := dnstest.Exchange(t, r.address(), "web.shop.svc.cluster.local.", dns.TypeA, dnstest.DO())
	if m.Rcode != dns.RcodeServerFailure || !strings.Contains(m.String(), "no kubeconfig") {
		t.Errorf("before there is a kubeconfig: %v", m)
	}
	if m := dnstest.Exchange(t, r.address(), "www.example.com.", dns.TypeA); firstValue(m) != "192.0.2.80" {
		t.Errorf("the site's names: %v", m)
	}
	write(t, filepath.Join(r.root, path), string(api.Kubeconfig()))
	r.synced()
	if m := r.cluster("web.shop.svc"); firstValue(m) != "172.30.0.9" || m.Answer[0].Header().Ttl != 30 {
		t.Errorf("with OpenShift's profile: %v", m)
	}
	r.end()
	kept, err := os.ReadFile(filepath.Join(r.root, "/var/cache/node-dns/cluster.snapshot"))
	if err != nil {
		t.Fatal(err)
	}

	api.Close()
	files[path], files["/var/cache/node-dns/cluster.snapshot"] = string(api.Kubeconfig()), string(kept)
	again := start(t, files)
	again.await("the kept state is served", func() bool { return again.clusterRcode("web.shop.svc") == dns.RcodeSuccess })
	m = dnstest.Exchange(t, again.address(), "web.shop.svc.cluster.local.", dns.TypeA, dnstest.DO())
	if diff := dnstest.Diff("web.shop.svc.cluster.local. 30 A 172.30.0.9\n;; ede 3", m); diff != "" {
		t.Errorf("from an earlier run:\n%s", diff)
	}
}

// TestAutopath: a pod of this node gets the final result of its search list in one answer. Other
// clients do not, nor does a pod with its own search list. The same holds while only the state of
// an earlier run is known.
func TestAutopath(t *testing.T) {
	t.Parallel()
	api, site := kubetest.NewServer(t), dnstest.NewServer(t, siteRecords)
	api.Apply(shop)
	files := map[string]string{
		kubeconfigPath: string(api.Kubeconfig()), upstreamPath: upstreamFile(site),
		"/etc/node-dns/node-dns.yaml": "nodeName: node-7\n",
	}
	r := start(t, files)
	r.synced()
	r.checkAutopath()
	if status := r.status().Cluster.Resolver.Autopath; !status.On || status.Saved != 3 {
		t.Errorf("status: %+v", status)
	}
	r.end()
	kept, err := os.ReadFile(filepath.Join(r.root, "/var/cache/node-dns/cluster.snapshot"))
	if err != nil {
		t.Fatal(err)
	}

	api.Close()
	files["/var/cache/node-dns/cluster.snapshot"] = string(kept)
	again := start(t, files)
	again.await("the kept state is served", func() bool { return again.clusterRcode("web.shop.svc") == dns.RcodeSuccess })
	again.checkAutopath()
	if status := again.status().Cluster.Resolver.Autopath; !status.On {
		t.Errorf("status: %+v", status)
	}
}

// TestAutopathWithoutTheRight: no search list is followed for pods that are no longer watched.
func TestAutopathWithoutTheRight(t *testing.T) {
	t.Parallel()
	api, site := kubetest.NewServer(t), dnstest.NewServer(t, siteRecords)
	api.Apply(shop)
	r := start(t, map[string]string{
		kubeconfigPath: string(api.Kubeconfig()), upstreamPath: upstreamFile(site),
		"/etc/node-dns/node-dns.yaml": "nodeName: node-7\n",
	})
	r.synced()
	r.checkAutopath()
	api.Deny("list", "pods")
	api.Deny("watch", "pods")
	api.CloseWatches()
	r.await("autopath is off", func() bool {
		status := r.status().Cluster.Resolver.Autopath
		return !status.On && strings.Contains(status.Why, "pods")
	})
	m, err := r.daemon.resolver.ServeDNS(t.Context(), clientQuery("www.example.com.shop.svc.cluster.local.", "10.128.0.41"))
	if err != nil || m.Rcode != dns.RcodeNameError {
		t.Errorf("%v, %v", m, err)
	}
	if r.clusterRcode("web.shop.svc") != dns.RcodeSuccess {
		t.Error("the cluster's names are not answered")
	}
	api.Grant("list", "pods")
	api.Grant("watch", "pods")
	r.await("autopath is on", func() bool { return r.status().Cluster.Resolver.Autopath.On })
	r.checkAutopath()
}

func (r *running) checkAutopath() {
	r.t.Helper()
	for client, want := range map[string]string{
		"10.128.0.41": "www.example.com.shop.svc.cluster.local. 5 CNAME www.example.com.\nwww.example.com. * A 192.0.2.80",
		"10.128.0.42": ";; NXDOMAIN",
		"10.128.0.43": ";; NXDOMAIN",
	} {
		m, err := r.daemon.resolver.ServeDNS(r.t.Context(), clientQuery("www.example.com.shop.svc.cluster.local.", client))
		if err != nil {
			r.t.Fatal(err)
		}
		if diff := dnstest.Diff(want, without(m)); diff != "" {
			r.t.Errorf("%s:\n%s", client, diff)
		}
	}
}

func clientQuery(name, client string) *dnsserver.Query {
	return &dnsserver.Query{
		Msg: new(dns.Msg).SetQuestion(name, dns.TypeA), Name: dnsname.MustParse(name),
		Client: netip.AddrPortFrom(netip.MustParseAddr(client), 4000), Local: netip.MustParseAddrPort("127.0.0.1:53"), Proto: dnsserver.UDP,
	}
}

// TestForwardsUntilTheAPIHasBeenRead: the cluster's DNS servers are queried while they are known
// and the API is not.
func TestForwardsUntilTheAPIHasBeenRead(t *testing.T) {
	t.Parallel()
	api := kubetest.NewServer(t)
	api.Apply(shop)
	coredns := dnstest.NewServer(t, "web.shop.svc.cluster.local. 30 IN A 192.0.2.66\n")
	r := start(t, map[string]string{
		"/etc/node-dns/node-dns.yaml": "kubeconfig: later\nclusterDNS: [\"" + coredns.Addr().String() + "\"]\n",
	})
	if m := r.cluster("web.shop.svc"); firstValue(m) != "192.0.2.66" {
		t.Errorf("before: %v", m)
	}
	write(t, filepath.Join(r.root, "/etc/node-dns/later"), string(api.Kubeconfig()))
	r.synced()
	if m := r.cluster("web.shop.svc"); firstValue(m) != "172.30.0.9" {
		t.Errorf("after: %v", m)
	}
}

// TestKubeconfigNone: with "kubeconfig: none" the cluster's names are forwarded to its servers.
func TestKubeconfigNone(t *testing.T) {
	t.Parallel()
	api := kubetest.NewServer(t)
	api.Apply(shop)
	r := start(t, map[string]string{kubeconfigPath: string(api.Kubeconfig()), "/etc/node-dns/node-dns.yaml": "kubeconfig: none\n"})
	if c := r.status().Cluster; c.Resolver != nil || r.clusterRcode("web.shop.svc") != dns.RcodeServerFailure {
		t.Errorf("%+v", c)
	}
	if n := len(api.Requests()); n > 0 {
		t.Errorf("the API got %d requests", n)
	}
}

// end stops the daemon and waits for it.
func (r *running) end() {
	r.t.Helper()
	r.stop()
	if err := <-r.ended; err != nil && context.Cause(r.t.Context()) == nil {
		r.t.Error(err)
	}
	close(r.ended)
}

// TestStaleBesideDeadServers: the cluster's DNS servers went down together with its API. Each name
// took 4 s, and a search list took longer than clients wait, although the answers were known.
func TestStaleBesideDeadServers(t *testing.T) {
	t.Parallel()
	api := kubetest.NewServer(t)
	api.Apply(shop)
	coredns := dnstest.NewServer(t, "web.shop.svc.cluster.local. 30 IN A 192.0.2.66\n")
	files := map[string]string{
		kubeconfigPath:                string(api.Kubeconfig()),
		"/etc/node-dns/node-dns.yaml": "clusterDNS: [\"" + coredns.Addr().String() + "\"]\n",
	}
	r := start(t, files)
	r.synced()
	r.end()
	kept, err := os.ReadFile(filepath.Join(r.root, "/var/cache/node-dns/cluster.snapshot"))
	if err != nil {
		t.Fatal(err)
	}
	api.Close()
	coredns.SetFaults(dnstest.Faults{Delay: 3 * time.Second}) // within the time that a client waits
	files["/var/cache/node-dns/cluster.snapshot"] = string(kept)
	again := start(t, files)
	again.await("the kept state", func() bool { return again.daemon.resolver.Known() != nil })
	if m := again.cluster("web.shop.svc"); firstValue(m) != "172.30.0.9" {
		t.Errorf("%v", m)
	}
}

// TestClusterNamesStay: while the cluster is unknown, its names are not sent upstream.
func TestClusterNamesStay(t *testing.T) {
	t.Parallel()
	site := dnstest.NewServer(t, siteRecords)
	r := start(t, map[string]string{upstreamPath: upstreamFile(site), "/etc/node-dns/node-dns.yaml": "kubeconfig: none\n"})
	if m, err := r.daemon.resolver.ServeDNS(t.Context(), clientQuery("web.shop.svc.cluster.local.", "10.128.0.41")); err == nil {
		t.Errorf("answered %v", m)
	}
	if n := site.QueriesFor("web.shop.svc.cluster.local.", dns.TypeA); n > 0 {
		t.Error("the cluster's name was sent to the site")
	}
}

// TestVerifiedPods: the list of Pods counts as unknown without the right to it, and right after a
// reload that needs it. An admin sees the missing right.
func TestVerifiedPods(t *testing.T) {
	t.Parallel()
	api, site := kubetest.NewServer(t), dnstest.NewServer(t, siteRecords)
	api.Apply(shop)
	api.Deny("list", "pods")
	r := start(t, map[string]string{kubeconfigPath: string(api.Kubeconfig()), upstreamPath: upstreamFile(site)})
	r.synced()
	denied := func() bool { return strings.Contains(strings.Join(r.status().Problems, "\n"), "list pods") }
	if denied() {
		t.Error("a missing right to pods that only autopath needs is reported as a problem")
	}
	write(t, filepath.Join(r.root, "/etc/node-dns/node-dns.yaml"), "pods: verified\n")
	if err := r.daemon.reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if rcode := r.clusterRcode("10-128-0-99.shop.pod"); rcode != dns.RcodeServerFailure {
		t.Errorf("after the reload: %d", rcode)
	}
	r.await("the problem", denied)
	m := dnstest.Exchange(t, r.address(), "10-128-0-41.shop.pod.cluster.local.", dns.TypeA, dnstest.DO())
	if m.Rcode != dns.RcodeServerFailure || !strings.Contains(m.String(), "not all pods are known") {
		t.Errorf("without the right: %v", m)
	}
	if m := r.cluster("web.shop.svc"); firstValue(m) != "172.30.0.9" {
		t.Errorf("another name: %v", m)
	}
	api.Grant("list", "pods")
	r.await("the pod", func() bool { return r.clusterRcode("10-128-0-41.shop.pod") == dns.RcodeSuccess })
	if rcode := r.clusterRcode("10-128-0-99.shop.pod"); rcode != dns.RcodeNameError {
		t.Errorf("with the right: %d", rcode)
	}
	r.await("no problem", func() bool { return !denied() })
}

// TestKubeconfigVanishes: the default kubeconfig is waited for, like a configured one. All names
// used to be dropped at once, without a log line. Only a reload may do that.
func TestKubeconfigVanishes(t *testing.T) {
	t.Parallel()
	for name, config := range map[string]string{"usual": "", "configured": "kubeconfig: " + filepath.Base(kubeconfigPath) + "\n"} {
		t.Run(name, func(t *testing.T) {
			api := kubetest.NewServer(t)
			api.Apply(shop)
			r := start(t, map[string]string{kubeconfigPath: string(api.Kubeconfig()), "/etc/node-dns/node-dns.yaml": config})
			r.synced()
			path := filepath.Join(r.root, kubeconfigPath)
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			r.await("the missing kubeconfig is reported", func() bool {
				return strings.Contains(strings.Join(r.status().Problems, "\n"), "kubeconfig is gone")
			})
			r.daemonLooks()
			if m := r.cluster("web.shop.svc"); firstValue(m) != "172.30.0.9" {
				t.Errorf("%v", m)
			}
			write(t, path, string(api.Kubeconfig()))
			r.await("the kubeconfig is read again", func() bool { return !strings.Contains(strings.Join(r.status().Problems, "\n"), "is gone") })
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			if err := r.daemon.reload(t.Context()); err != nil {
				t.Fatal(err)
			}
			r.daemonLooks()
			if watched := r.status().Cluster.Resolver != nil; watched != (config != "") {
				t.Errorf("after a reload: watched %t", watched)
			}
		})
	}
}

// TestClusterNamesStayHere: the forwarder itself never sends a cluster name to the site's
// nameservers. A query in flight during a reload that removed clusterDNS used to reach them,
// between the change of the routes and that of the zone.
func TestClusterNamesStayHere(t *testing.T) {
	t.Parallel()
	site := dnstest.NewServer(t, siteRecords+"web.shop.svc.cluster.local. 30 IN A 192.0.2.66\n")
	r := start(t, map[string]string{upstreamPath: upstreamFile(site), "/etc/node-dns/node-dns.yaml": "serviceCIDRs: [172.30.0.0/16]\n"})
	for _, name := range []string{"web.shop.svc.cluster.local.", "cluster.local.", "9.0.30.172.in-addr.arpa."} {
		if m, err := r.daemon.resolver.Forward().ServeDNS(t.Context(), clientQuery(name, "192.0.2.10")); err == nil {
			t.Errorf("%s: %v", name, m)
		}
		if n := site.QueriesFor(name, dns.TypeA); n > 0 {
			t.Errorf("%s was sent to the site", name)
		}
	}
	for _, route := range r.status().Routes {
		if route.Domain != "." {
			t.Errorf("the status shows a route for %s", route.Domain)
		}
	}
}
