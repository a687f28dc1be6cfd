package daemon

import (
	"context"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/test/dnstest"
	"github.com/node-dns/node-dns/internal/test/kubetest"
)

// redirectedService is the cluster's DNS Service, at an address that packets do not leave this host
// for.
var redirectedService = strings.ReplaceAll(dnsService, "172.30.0.53", "127.30.0.53")

// TestRedirectedNeedsTheCluster: /ready fails until cluster names can be answered, because Cilium
// redirects queries to a pod that is ready. Then the status says whether they come here, and
// nothing is requested from the helper.
func TestRedirectedNeedsTheCluster(t *testing.T) {
	t.Parallel()
	api := kubetest.NewServer(t)
	api.Apply(shop + redirectedService)
	r, metrics := withMetrics(t, map[string]string{
		upstreamPath:   upstreamFile(dnstest.NewServer(t, siteRecords)),
		kubeconfigPath: strings.Replace(string(api.Kubeconfig()), "127.0.0.1:", "127.0.0.1:1", 1), // nothing listens there
	}, "intercept: cilium\n", isTriedOften, func(c *Config) { c.AwaitRedirected = func(context.Context) {} })
	const unknown = "the cluster's names are not known yet\n"
	if code, body := r.get(metrics, "/ready"); code != http.StatusServiceUnavailable || body != unknown {
		t.Errorf("before the cluster is known, /ready says %d %q", code, body)
	}
	write(t, filepath.Join(r.root, kubeconfigPath), string(api.Kubeconfig()))
	r.await("ready", func() bool { code, _ := r.get(metrics, "/ready"); return code == http.StatusOK })
	r.await("the address of the Service", func() bool {
		i := r.status().Interception
		return i != nil && i.Cilium && i.Why == "" && slices.Equal(i.Wanted, []string{"127.30.0.53"}) &&
			len(i.Addresses) == 1 && strings.Contains(i.Addresses[0].Why, "127.30.0.53")
	})
	if got := r.request(); got != "" {
		t.Errorf("requested from the helper:\n%s", got)
	}
	r.end()
}

// TestStopAnswersRedirected: a stopping daemon answers until Cilium has had the time to learn that
// the pod is not ready. /ready fails from the beginning.
func TestStopAnswersRedirected(t *testing.T) {
	t.Parallel()
	api := kubetest.NewServer(t)
	api.Apply(shop + redirectedService)
	stopping, learned := make(chan struct{}), make(chan struct{})
	r, metrics := withMetrics(t, map[string]string{
		upstreamPath:   upstreamFile(dnstest.NewServer(t, siteRecords)),
		kubeconfigPath: string(api.Kubeconfig()),
	}, "intercept: cilium\n", func(c *Config) {
		c.AwaitRedirected = func(context.Context) { close(stopping); <-learned }
	})
	r.await("ready", func() bool { code, _ := r.get(metrics, "/ready"); return code == http.StatusOK })
	address := r.address()
	r.stop()
	<-stopping
	if response, err := http.Get("http://" + metrics + "/ready"); err == nil {
		response.Body.Close()
		t.Errorf("while it stops, /ready says %s", response.Status)
	}
	if got := r.rcode(address, "www.example.com."); got != dns.RcodeSuccess {
		t.Errorf("while it stops, got %s", dns.RcodeToString[got])
	}
	close(learned)
	r.end()
}
