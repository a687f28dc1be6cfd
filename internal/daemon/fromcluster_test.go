package daemon

import (
	"os"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dnstest"
	"github.com/node-dns/node-dns/internal/kubetest"
)

// coredns is CoreDNS's ConfigMap with this Corefile.
func coredns(corefile string) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata: {namespace: kube-system, name: coredns}\ndata:\n  Corefile: |\n    " +
		strings.ReplaceAll(strings.TrimSpace(corefile), "\n", "\n    ") + "\n"
}

// TestFromCluster: what the cluster configures of its own DNS is asked and answered below what this node's own files say, above what the network
// says, and not in the cluster's zone; it changes as the API tells, holds over a restart without the API, and is forgotten with the key.
func TestFromCluster(t *testing.T) {
	api := kubetest.NewServer(t)
	api.Apply(shop)
	site := dnstest.NewServer(t, siteRecords)
	const corefile = `
.:53 {
    hosts {
        192.0.2.77 printer.test
        192.0.2.78 known.test
        fallthrough
    }
    template IN A example.net
    forward . 198.51.100.1
}
corp.test:53 {
    forward . 198.51.100.2
}
own.test:53 {
    forward . 198.51.100.2
}
alpha.svc.cluster.local:53 {
    forward . 198.51.100.2
}
none.test:53 {
    hosts {
        192.0.2.79 only.none.test
    }
}`
	api.Apply(coredns(corefile))
	r := start(t, map[string]string{
		kubeconfigPath: string(api.Kubeconfig()), upstreamPath: upstreamFile(site),
		"/etc/node-dns/node-dns.yaml": "fromCluster: true\nroutes: [{domain: own.test, servers: [198.51.100.3]}]\n",
		"/etc/dnsmasq.d/own.conf":     "host-record=known.test,192.0.2.99\n",
	})
	r.synced()
	r.await("the ConfigMap is followed", func() bool { return strings.Contains(r.routes(), "corp.test.=") })
	wants := func(when string, rows map[string]string) {
		t.Helper()
		for name, want := range rows {
			if got := r.answer(name+".", dns.TypeA); got != want {
				t.Errorf("%s: %s is %q, want %q", when, name, got, want)
			}
		}
	}
	const routes = "own.test.=198.51.100.3 corp.test.=198.51.100.2 none.test.= .=198.51.100.1"
	if got := r.routes(); got != routes {
		t.Errorf("the routes are %s, want %s", got, routes)
	}
	all := map[string]string{
		"printer.test": "NOERROR 192.0.2.77", "known.test": "NOERROR 192.0.2.99", "only.none.test": "NOERROR 192.0.2.79",
		"other.none.test": "NXDOMAIN", "web.shop.svc.cluster.local": "NOERROR 172.30.0.9",
	}
	wants("at the start", all)
	if got := r.answer("77.2.0.192.in-addr.arpa.", dns.TypePTR); got != "NOERROR printer.test." {
		t.Errorf("the reverse name is %q", got)
	}
	status := r.status()
	for _, want := range []string{
		"ConfigMap kube-system/coredns Corefile:7 is not followed: ",  // template
		"ConfigMap kube-system/coredns Corefile:17 is not followed: ", // the cluster's zone
	} {
		if notes := strings.Join(status.Notes, "\n"); !strings.Contains(notes, want) {
			t.Errorf("the notes are\n%s\nwant %q", notes, want)
		}
	}
	var lost []string
	for _, loss := range status.Overridden {
		lost = append(lost, loss.Domain+" "+loss.Source+": "+loss.Why)
	}
	if want := "own.test. ConfigMap kube-system/coredns Corefile:14: routes "; !strings.Contains(strings.Join(lost, "\n"), want) {
		t.Errorf("lost are\n%s\nwant %q", strings.Join(lost, "\n"), want)
	}
	api.SetOpenShift()
	changed := strings.Replace(corefile, "198.51.100.2", "198.51.100.4", 1)
	api.Apply(coredns(changed))
	const routes2 = "own.test.=198.51.100.3 corp.test.=198.51.100.4 none.test.= .=198.51.100.1"
	r.await("the change is followed", func() bool { return r.routes() == routes2 })

	api.SetFaults(kubetest.Faults{Status: 503})
	api.CloseWatches()
	r.restart()
	if got := r.routes(); got != routes2 {
		t.Errorf("without the API the routes are %s, want %s", got, routes2)
	}
	delete(all, "web.shop.svc.cluster.local")
	wants("without the API", all)
	api.SetFaults(kubetest.Faults{})

	for _, verb := range []string{"list", "watch"} {
		api.Deny(verb, "configmaps")
	}
	api.CloseWatches()
	r.await("the missing right is a problem", func() bool {
		return strings.Contains(strings.Join(r.status().Problems, "\n"), "configmaps/coredns in namespace kube-system")
	})
	wants("without the right", all)
	for _, verb := range []string{"list", "watch"} {
		api.Grant(verb, "configmaps")
	}

	write(t, r.root+"/etc/node-dns/node-dns.yaml", "fromCluster: false\n")
	r.await("it is not followed any more", func() bool { return !strings.Contains(r.routes(), "corp.test.=") })
	wants("with the key off", map[string]string{"www.example.com": "NOERROR 192.0.2.80", "printer.test": "NXDOMAIN", "known.test": "NOERROR 192.0.2.99"})
	r.await("nothing is kept", func() bool {
		_, err := os.Stat(r.daemon.paths.fromCluster)
		return os.IsNotExist(err)
	})
}

// TestFromClusterUnkept: a file that is none of ours is passed over with a line in the log, and without an API the key is a problem.
func TestFromClusterUnkept(t *testing.T) {
	r := start(t, map[string]string{
		"/var/cache/node-dns/from-cluster.json": "[{",
		"/etc/node-dns/node-dns.yaml":           "fromCluster: true\nkubeconfig: none\n",
	})
	r.await("a problem", func() bool {
		return strings.Contains(strings.Join(r.status().Problems, "\n"), "no Kubernetes API is watched")
	})
}
