package daemon

import (
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/test/dnstest"
	"github.com/node-dns/node-dns/internal/test/lab"
)

// TestDnsmasqFilesWhileRunning: a change takes effect. A faulty change is reported and has no
// effect. A file that is faulty at the start is used without its faulty lines. The notes list
// options that are not followed.
func TestDnsmasqFilesWhileRunning(t *testing.T) {
	t.Parallel()
	const path = "/etc/dnsmasq.d/site.conf"
	log := new(lab.Text)
	r := start(t, map[string]string{path: "address=/a.test/192.0.2.1\nno-such=1\nquery-port=2048\ncache-size=7\ndns-forward-max=9\nlog-queries\n"}, func(c *Config) {
		c.Log = slog.New(slog.NewTextHandler(log, nil))
	})
	answers := func(want string) func() bool {
		return func() bool {
			return dnstest.AskLine(t, r.address(), "a.test A") == "a.test A: NOERROR a.test. 0 IN A "+want
		}
	}
	r.await("the line without a fault", answers("192.0.2.1"))
	if s := r.daemon.policy(); r.status().Cache.Size != 7 || s.ForwardMax != 9 {
		t.Errorf("cache of %d, %d forwarded", r.status().Cache.Size, s.ForwardMax)
	}
	r.await("the query is logged", func() bool { // after the answer
		text := log.String()
		return strings.Contains(text, `msg="query[A] a.test from 127.0.0.1"`) && strings.Contains(text, `msg="config a.test is 192.0.2.1"`)
	})
	problem := func() bool {
		return slices.ContainsFunc(r.status().Problems, func(p string) bool { return strings.Contains(p, path+":") && strings.Contains(p, "no-such") })
	}
	if !problem() {
		t.Errorf("problems %q", r.status().Problems)
	}
	if !slices.ContainsFunc(r.status().Notes, func(n string) bool { return strings.Contains(n, "query-port") }) {
		t.Errorf("notes %q", r.status().Notes)
	}
	write(t, filepath.Join(r.root, path), "address=/a.test/192.0.2.2\n")
	r.await("the change", answers("192.0.2.2"))
	r.await("no problem is left", func() bool { return !problem() })
	write(t, filepath.Join(r.root, path), "address=/a.test/192.0.2.3\nno-such\n")
	r.await("the fault is reported", problem)
	if !answers("192.0.2.2")() {
		t.Error("a faulty file took effect")
	}
	if err := r.daemon.reload(t.Context()); err == nil {
		t.Error("a faulty reload returns no error")
	}
	write(t, filepath.Join(r.root, "/etc/node-dns/node-dns.yaml"), "cacheSize: 5\n")
	if err := r.daemon.reload(t.Context()); err == nil || r.status().Cache.Size != 5 || !answers("192.0.2.2")() {
		t.Errorf("node-dns.yaml has no effect while dnsmasq's files are faulty: %v, cache of %d", err, r.status().Cache.Size)
	}
	write(t, filepath.Join(r.root, path), "no-hosts\n")
	write(t, filepath.Join(r.root, "/etc/dnsmasq.d/new.conf"), "address=/a.test/192.0.2.4\n")
	r.await("a new file", answers("192.0.2.4"))
	write(t, filepath.Join(r.root, "/etc/hosts"), "192.0.2.5 a.test\n")
	write(t, filepath.Join(r.root, path), "local-ttl=0\n")
	r.await("the hosts file", answers("192.0.2.5"))
	write(t, filepath.Join(r.root, "/etc/hosts"), "192.0.2.6 a.test\n")
	r.await("another hosts file", answers("192.0.2.6"))
}

// TestUDPOptionsWhileRunning: setting and removing edns-packet-max and max-port takes effect
// without a restart.
func TestUDPOptionsWhileRunning(t *testing.T) {
	t.Parallel()
	const path = "/etc/dnsmasq.d/site.conf"
	site := dnstest.NewServer(t, dnstest.BigRecords())
	conf := "server=" + strings.Replace(site.Addr().String(), ":", "#", 1) + "\ncache-size=0\n"
	r := start(t, map[string]string{path: conf})
	asked := func() (isWhole bool, port uint16) {
		isWhole = !strings.Contains(dnstest.AskLine(t, r.address(), "big.example TXT size=4096"), "tc")
		for _, q := range slices.Backward(site.Received()) {
			if q.Network == "udp" && q.Msg.Question[0].Qtype == dns.TypeTXT && q.Msg.Question[0].Name == "big.example." {
				return isWhole, q.Client.Port()
			}
		}
		return isWhole, 0
	}
	if isWhole, _ := asked(); isWhole {
		t.Error("3000 bytes over UDP, without edns-packet-max")
	}
	write(t, filepath.Join(r.root, path), conf+"edns-packet-max=4096\nmin-port=1024\nmax-port=2047\n")
	r.await("the larger size", func() bool { isWhole, port := asked(); return isWhole && port <= 2047 })
	write(t, filepath.Join(r.root, path), conf)
	r.await("the usual size", func() bool { isWhole, port := asked(); return !isWhole && port > 2047 })
}

// TestLocalDataInTheCluster: local data that an admin sets for a cluster name wins and is reported.
// Local data for a domain above does not apply.
func TestLocalDataInTheCluster(t *testing.T) {
	t.Parallel()
	rows := []struct {
		conf     string
		inWay    bool // whether it overrides the fast path, which a note reports
		question string
		want     string
	}{
		{"address=/local/192.0.2.1\naddress=/#/192.0.2.2\n", false, "web.shop.svc.cluster.local A", "172.30.1.1"},
		{"host-record=web.shop.svc.cluster.local,192.0.2.1\n", true, "web.shop.svc.cluster.local A", "192.0.2.1"},
		{"address=/svc.cluster.local/192.0.2.1\n", true, "web.shop.svc.cluster.local A", "192.0.2.1"},
		{"host-record=web.shop.svc.cluster.local,2001:db8::1\n", true, "web.shop.svc.cluster.local A", "172.30.1.1"},
		{"server=/svc.cluster.local/192.0.2.77\n", false, "web.shop.svc.cluster.local A", "172.30.1.1"},
	}
	cluster := dnstest.NewServer(t, "web.shop.svc.cluster.local. 5 IN A 172.30.1.1\ncluster.local. 5 IN SOA a. b. 1 2 3 4 5\n")
	for _, row := range rows {
		r := start(t, map[string]string{"/etc/dnsmasq.conf": row.conf, "/etc/node-dns/node-dns.yaml": "clusterDNS: [\"" + cluster.Addr().String() + "\"]\n"})
		if got := dnstest.AskLine(t, r.address(), row.question); !strings.HasSuffix(got, " "+row.want) {
			t.Errorf("%s%s", row.conf, got)
		}
		said := slices.ContainsFunc(r.status().Notes, func(n string) bool { return strings.Contains(n, "cluster's zone cluster.local.") })
		if said != row.inWay {
			t.Errorf("%snotes %q", row.conf, r.status().Notes)
		}
	}
}

// TestHandoverIsNotReadTwice: the captured servers come from NetworkManager, not from dnsmasq's
// files.
func TestHandoverIsNotReadTwice(t *testing.T) {
	t.Parallel()
	site := dnstest.NewServer(t, siteRecords)
	r := start(t, map[string]string{upstreamPath: upstreamFile(site), "/etc/dnsmasq.conf": "conf-dir=/etc/dnsmasq.d\nno-resolv\n"})
	r.await("the captured server", func() bool { return slices.Equal(r.servers(), []string{site.Addr().String()}) })
	var sources []string
	for _, route := range r.status().Routes {
		sources = append(sources, route.Source)
	}
	for _, lost := range r.status().Overridden {
		sources = append(sources, lost.Source)
	}
	if slices.ContainsFunc(sources, func(source string) bool { return strings.HasPrefix(source, "dnsmasq") }) {
		t.Errorf("from %q", sources)
	}
}
