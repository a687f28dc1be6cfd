package daemon

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/admin/view"
	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/test/dnstest"
	"github.com/node-dns/node-dns/internal/test/kubetest"
	"github.com/node-dns/node-dns/internal/test/lab"
)

// coredns returns CoreDNS's ConfigMap with this Corefile.
func coredns(corefile string) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata: {namespace: kube-system, name: coredns}\ndata:\n  Corefile: |\n    " +
		strings.ReplaceAll(strings.TrimSpace(corefile), "\n", "\n    ") + "\n"
}

// TestFromCluster: the cluster's own DNS configuration takes precedence over the network's servers,
// but not over this node's own files or in the cluster's zone. It follows changes in the API,
// survives a restart without the API, and is dropped when the option is turned off.
func TestFromCluster(t *testing.T) {
	t.Parallel()
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
		t.Errorf("got lost\n%s\nwant %q", strings.Join(lost, "\n"), want)
	}
	api.SetOpenShift()
	// A change that could not be saved was lost at a restart without the API, even if there was
	// space again long before.
	file := r.daemon.paths.fromCluster
	r.await("the file cannot be replaced", func() bool {
		_ = os.Remove(file) // it may be written meanwhile
		return os.Mkdir(file, 0o700) == nil
	})
	changed := strings.Replace(corefile, "198.51.100.2", "198.51.100.4", 1)
	api.Apply(coredns(changed))
	const routes2 = "own.test.=198.51.100.3 corp.test.=198.51.100.4 none.test.= .=198.51.100.1"
	r.await("the change is followed", func() bool { return r.routes() == routes2 })
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	r.await("the change is saved once that is possible", func() bool {
		text, err := os.ReadFile(file)
		return err == nil && strings.Contains(string(text), "198.51.100.4")
	})

	api.SetFaults(kubetest.Faults{Status: 503})
	api.CloseWatches()
	r.restart()
	if got := r.routes(); got != routes2 {
		t.Errorf("without the API: routes %s, want %s", got, routes2)
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
	r.await("the ConfigMap is no longer followed", func() bool { return !strings.Contains(r.routes(), "corp.test.=") })
	wants("with the key off", map[string]string{"www.example.com": "NOERROR 192.0.2.80", "printer.test": "NXDOMAIN", "known.test": "NOERROR 192.0.2.99"})
	r.await("nothing is kept", func() bool {
		_, err := os.Stat(r.daemon.paths.fromCluster)
		return os.IsNotExist(err)
	})
}

// TestFromClusterUnkept: a damaged file is ignored and logged. fromCluster without an API is
// reported as a problem.
func TestFromClusterUnkept(t *testing.T) {
	t.Parallel()
	for name, make := range map[string]func(path string) error{
		"damaged": func(path string) error { return os.WriteFile(path, []byte("[{"), 0o600) },
		"no file": func(path string) error { return os.Symlink("/dev/zero", path) },
		"huge": func(path string) error {
			return errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, 16<<20+1))
		},
	} {
		t.Run(name, func(t *testing.T) {
			var log lab.Text
			r := start(t, map[string]string{"/etc/node-dns/node-dns.yaml": "fromCluster: true\nkubeconfig: none\n"}, func(c *Config) {
				dir := filepath.Join(c.Root, "/var/cache/node-dns")
				if err := errors.Join(os.MkdirAll(dir, 0o755), make(filepath.Join(dir, "from-cluster.json"))); err != nil {
					t.Fatal(err)
				}
				c.Log = slog.New(slog.NewTextHandler(&log, nil))
			})
			r.await("a problem", func() bool {
				return strings.Contains(strings.Join(r.status().Problems, "\n"), "requires a Kubernetes API")
			})
			if !strings.Contains(log.String(), "cannot load the saved settings of the cluster's DNS; waiting for the API") {
				t.Errorf("got the log\n%s", log.String())
			}
		})
	}
}

// kubeDNS returns kube-dns's ConfigMap with these values.
func kubeDNS(values string) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata: {namespace: kube-system, name: kube-dns}\ndata: {" + values + "}\n"
}

// TestFromClusterSyntax: an object with a syntax error keeps its last good version, even across a
// restart without the API. After a missing brace, names of stub domains went to the site's
// nameservers.
func TestFromClusterSyntax(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct{ good, bad, fixed string }{
		"Corefile": {
			coredns("corp.test:53 {\n    forward . 198.51.100.1\n}"), coredns("corp.test:53 {\n    forward . 198.51.100.2"), coredns("corp.test:53 {\n    forward . 198.51.100.3\n}"),
		},
		"stubDomains": {
			kubeDNS(`stubDomains: '{"corp.test": ["198.51.100.1"]}'`), kubeDNS(`stubDomains: '{"corp.test": ["198.51.100.2"],}'`), kubeDNS(`stubDomains: '{"corp.test": ["198.51.100.3"]}'`),
		},
	} {
		t.Run(name, func(t *testing.T) {
			api, site := kubetest.NewServer(t), dnstest.NewServer(t, siteRecords)
			api.Apply(shop)
			api.Apply(row.good)
			r := start(t, map[string]string{
				kubeconfigPath: string(api.Kubeconfig()), upstreamPath: upstreamFile(site), "/etc/node-dns/node-dns.yaml": "fromCluster: true\n",
			})
			r.await("it is followed", func() bool { return strings.Contains(r.routes(), "corp.test.=198.51.100.1") })
			api.Apply(row.bad)
			hasProblem := func() bool {
				return strings.Contains(strings.Join(r.status().Problems, "\n"), "; its previous settings stay in use")
			}
			r.await("the fault is a problem", hasProblem)
			if !strings.Contains(r.routes(), "corp.test.=198.51.100.1") {
				t.Errorf("the routes are %s", r.routes())
			}
			api.SetFaults(kubetest.Faults{Status: 503})
			r.restart()
			if !strings.Contains(r.routes(), "corp.test.=198.51.100.1") {
				t.Errorf("after a restart without the API the routes are %s", r.routes())
			}
			api.SetFaults(kubetest.Faults{})
			r.await("the fault is a problem again", hasProblem)
			api.Apply(row.fixed)
			r.await("the corrected object is followed", func() bool { return strings.Contains(r.routes(), "corp.test.=198.51.100.3") && !hasProblem() })
		})
	}
}

// TestFromClusterAPIName: if the API server has a host name and all nameservers in a ConfigMap are
// dead, the daemon still finds the API and reads the corrected ConfigMap.
func TestFromClusterAPIName(t *testing.T) {
	t.Parallel()
	api, site := kubetest.NewServer(t), dnstest.NewServer(t, siteRecords+"api.corp.example. 1 IN A 127.0.0.1\n")
	api.Apply(shop)
	api.Apply(kubeDNS(`upstreamNameservers: '["192.0.2.250"]'`))
	r := start(t, map[string]string{
		kubeconfigPath: strings.Replace(string(api.Kubeconfig()), "https://127.0.0.1:", "https://api.corp.example:", 1),
		upstreamPath:   upstreamFile(site), "/etc/node-dns/node-dns.yaml": "fromCluster: true\n",
	})
	r.await("they are followed", func() bool { return strings.Contains(r.routes(), ".=192.0.2.250") })
	r.restart()
	if !strings.Contains(r.routes(), ".=192.0.2.250") {
		t.Errorf("after a restart the routes are %s", r.routes())
	}
	api.Apply(kubeDNS(""))
	r.await("the corrected ConfigMap is followed", func() bool { return r.answer("www.example.com.", dns.TypeA) == "NOERROR 192.0.2.80" })
}

// TestFromClusterHosts: this node's own files and routes override the entries of hosts blocks. A
// name in a hosts block has only those addresses. The fast path gives the same answers as the slow
// path.
func TestFromClusterHosts(t *testing.T) {
	t.Parallel()
	api, site := kubetest.NewServer(t), dnstest.NewServer(t, siteRecords+"printer.test. 30 IN AAAA 2001:db8::bad\n")
	api.Apply(shop)
	api.Apply(exported)
	api.SetImports(true)
	api.Apply(coredns(`
.:53 {
    hosts {
        192.0.2.77 printer.test
        192.0.2.98 x.own.test
        192.0.2.99 web.shop.svc.clusterset.local
        fallthrough
    }
    forward . /etc/resolv.conf
}`))
	r := start(t, map[string]string{
		kubeconfigPath: string(api.Kubeconfig()), upstreamPath: upstreamFile(site),
		"/etc/node-dns/node-dns.yaml": "fromCluster: true\nroutes: [{domain: own.test, servers: [198.51.100.3]}]\n",
	})
	r.synced()
	r.await("they are known", func() bool { return r.answer("printer.test.", dns.TypeA) == "NOERROR 192.0.2.77" })
	if got := r.answer("printer.test.", dns.TypeAAAA); got != "NOERROR" || site.QueriesFor("printer.test.", dns.TypeAAAA) > 0 {
		t.Errorf("the address of the other family is %q", got)
	}
	for range 2 {
		if got := r.answer("web.shop.svc.clusterset.local.", dns.TypeA); got != "NOERROR 192.0.2.99" {
			t.Errorf("a clusterset name is %q", got)
		}
	}
	s := r.daemon.policy()
	if s.Local.Has(dnsname.MustParse("x.own.test")) {
		t.Error("a name with configured nameservers is answered from the cluster's hosts")
	}
	if got := view.SaidLocally(s, dnsname.MustParse("printer.test")); got != "ConfigMap kube-system/coredns Corefile:3" {
		t.Errorf("it is from %q", got)
	}
}

// TestFromClusterCured: a problem ends with its cause, even if a new watch started in between.
// Objects in the file that are not watched are ignored.
func TestFromClusterCured(t *testing.T) {
	t.Parallel()
	api, site := kubetest.NewServer(t), dnstest.NewServer(t, siteRecords)
	api.Apply(shop)
	api.Apply(coredns("corp.test:53 {\n    forward . 198.51.100.1\n}"))
	const stray = `{"cluster": "", "objects": [{"kind": "ConfigMap", "namespace": "other", "name": "x", "data": {"Corefile": "stray.test {\nforward . 198.51.100.9\n}"}}]}`
	r := start(t, map[string]string{
		kubeconfigPath: string(api.Kubeconfig()), upstreamPath: upstreamFile(site), "/etc/node-dns/node-dns.yaml": "fromCluster: true\n",
		"/var/cache/node-dns/from-cluster.json": strings.ReplaceAll(stray, "\n", `\n`),
	})
	r.synced()
	r.await("it is followed", func() bool { return strings.Contains(r.routes(), "corp.test.=") })
	if strings.Contains(r.routes(), "stray") {
		t.Errorf("the routes are %s", r.routes())
	}
	for _, verb := range []string{"list", "watch"} {
		api.Deny(verb, "configmaps")
	}
	api.CloseWatches()
	problems := func() string { return strings.Join(r.status().Problems, "\n") }
	r.await("the missing right is a problem", func() bool { return strings.Contains(problems(), "configmaps/coredns in namespace kube-system") })
	for _, verb := range []string{"list", "watch"} {
		api.Grant(verb, "configmaps")
	}
	write(t, r.root+"/etc/node-dns/node-dns.yaml", "fromCluster: true\nsameZoneFirst: true\n")
	r.await("the problem is over", func() bool { return problems() == "" })
}
