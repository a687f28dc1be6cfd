package daemon

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/intercept"
	"github.com/node-dns/node-dns/internal/test/dnstest"
	"github.com/node-dns/node-dns/internal/test/kubetest"
)

// dnsService is the cluster's DNS Service.
const dnsService = `
---
apiVersion: v1
kind: Service
metadata: {name: kube-dns, namespace: kube-system}
spec: {clusterIP: 172.30.0.53, clusterIPs: [172.30.0.53], ports: [{port: 53, protocol: UDP}]}
`

// startIntercepting starts a daemon with `intercept: clusterDNS`.
func startIntercepting(t *testing.T, site *dnstest.Server, kubeconfig string) *running {
	return start(t, map[string]string{
		upstreamPath: upstreamFile(site), "/etc/node-dns/node-dns.yaml": "intercept: clusterDNS\n", kubeconfigPath: kubeconfig,
	})
}

func (r *running) request() string {
	r.t.Helper()
	data, err := os.ReadFile(intercept.RequestFile(r.root))
	if err != nil && !os.IsNotExist(err) {
		r.t.Fatal(err)
	}
	return string(data)
}

// TestInterceptionNeedsTheCluster: pods' queries are not requested before cluster names can be
// answered. The Service's address comes from the API.
func TestInterceptionNeedsTheCluster(t *testing.T) {
	t.Parallel()
	api := kubetest.NewServer(t)
	api.Apply(shop + dnsService)
	site := dnstest.NewServer(t, siteRecords)
	r := startIntercepting(t, site, strings.Replace(string(api.Kubeconfig()), "127.0.0.1:", "127.0.0.1:1", 1)) // nothing listens there
	r.await("the reason", func() bool {
		i := r.status().Interception
		return i == nil || i.Why == "the cluster's names are not known yet"
	})
	if got := r.request(); got != "" {
		t.Errorf("requested before the cluster is known:\n%s", got)
	}
	write(t, filepath.Join(r.root, kubeconfigPath), string(api.Kubeconfig()))
	r.await("the request", func() bool { return strings.Contains(r.request(), "intercept 172.30.0.53\n") })
	if i := r.status().Interception; i == nil || i.Why != "node-dns-intercept.service does not run" {
		t.Errorf("the status says %+v", i)
	}
	r.end()
	if got := r.request(); got != "" {
		t.Errorf("still requested after the stop:\n%s", got)
	}
}

// helperSays writes the helper's state file.
func (r *running) helperSays(on bool) {
	r.t.Helper()
	data, err := intercept.State{Addresses: []intercept.Address{{Address: netip.MustParseAddr("172.30.0.53"), On: on, Mode: intercept.Local, Since: time.Now()}}}.Marshal()
	if err != nil {
		r.t.Fatal(err)
	}
	write(r.t, intercept.StateFile(r.root), string(data))
}

// TestReloadWaitsForTheHelper: a reload that ends interception continues with the listeners only
// when the helper has removed its rules. Queries were lost when an intercepted address closed
// before.
func TestReloadWaitsForTheHelper(t *testing.T) {
	t.Parallel()
	api := kubetest.NewServer(t)
	api.Apply(shop + dnsService)
	r := startIntercepting(t, dnstest.NewServer(t, siteRecords), string(api.Kubeconfig()))
	r.await("the request", func() bool { return r.request() != "" })
	r.helperSays(true)
	write(t, filepath.Join(r.root, "/etc/node-dns/node-dns.yaml"), "intercept: none\n")
	reloaded := make(chan error, 1)
	go func() { reloaded <- r.daemon.reload(t.Context()) }()
	r.await("the request to be withdrawn", func() bool { return r.request() == "" })
	select {
	case err := <-reloaded:
		t.Errorf("the reload ended while the rules are there: %v", err)
		return
	case <-time.After(50 * time.Millisecond): // a reload that does not wait takes a few
	}
	r.helperSays(false)
	if err := <-reloaded; err != nil {
		t.Error(err)
	}
}

// TestStopWaitsForTheHelper: a stopping daemon answers until the helper has removed its rules.
func TestStopWaitsForTheHelper(t *testing.T) {
	t.Parallel()
	api := kubetest.NewServer(t)
	api.Apply(shop + dnsService)
	r := startIntercepting(t, dnstest.NewServer(t, siteRecords), string(api.Kubeconfig()))
	r.await("the request", func() bool { return r.request() != "" })
	r.helperSays(true)
	if i := r.status().Interception; i == nil || len(i.Addresses) != 1 || !i.Addresses[0].On {
		t.Errorf("the status says %+v", i)
	}
	address := r.address()
	r.stop()
	r.await("the request to be withdrawn", func() bool { return r.request() == "" })
	if got := r.rcode(address, "www.example.com."); got != dns.RcodeSuccess {
		t.Errorf("while the rules are there, got %s", dns.RcodeToString[got])
	}
	r.helperSays(false)
	r.end()
}
