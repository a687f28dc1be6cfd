package netns

import (
	"path/filepath"
	"strings"
	"testing"
)

// The cluster's own nameserver and a name that it knows. libc finds the name by the search list.
const (
	clusterNS   = "10.77.0.55"
	clusterName = "web.shop.svc"
	clusterIP   = "192.0.2.80"
	siteName    = "www.up.example" // known to the site's nameservers
	siteIP      = "192.0.2.1"
)

// serveCluster starts the cluster's nameserver, to which node-dns forwards the cluster's names.
func (n *node) serveCluster() {
	n.t.Helper()
	n.lan.Run("ip", "addr", "add", clusterNS+"/24", "dev", "lan0")
	n.lan.Start("dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--user=root", "--pid-file", "--log-facility=-", "--no-resolv", "--no-hosts",
		"--bind-interfaces", "--listen-address="+clusterNS, "--local=/cluster.local/", "--address=/"+clusterName+".cluster.local/"+clusterIP)
	n.l.WriteFile("/etc/node-dns/node-dns.yaml", "clusterDNS: ["+clusterNS+"]\n")
}

// install installs node-dns on a bare machine and starts it.
func (n *node) install() {
	n.t.Helper()
	n.l.Hook(filepath.Base(installedHook), n.program)
	n.daemon = startDaemon(n.t, n.l)
	n.unit.start(n)
}

// wantNames checks libc's addresses of a site name and of a cluster name found by the search list.
// "" means that there is none.
func (n *node) wantNames(site, cluster string) {
	n.t.Helper()
	for name, want := range map[string]string{siteName: site, clusterName: cluster} {
		n.l.Await("libc to resolve "+name+" to "+want, func() bool {
			out, err := n.l.Try("getent", "ahostsv4", name)
			return err != nil && want == "" || err == nil && strings.Fields(out)[0] == want
		})
	}
}

// TestNetworkManagerModes: with any dns= mode, node-dns takes its upstreams from NetworkManager, or
// with dns=none from the file. It alone owns resolv.conf while it answers. NetworkManager manages
// it again after node-dns has stopped, and the two never fight.
func TestNetworkManagerModes(t *testing.T) {
	for _, row := range []struct {
		dns    string
		text   string // resolv.conf before; empty if NetworkManager writes it
		libc   string // the nameserver in it
		writes bool   // the owner of resolv.conf does not know node-dns, and writes the file back
	}{
		{dns: "default", libc: ns1},
		{dns: "dnsmasq", libc: "127.0.0.1"},
		{dns: "none", text: "# mine\nsearch example.com\nnameserver " + ns1 + "\noptions timeout:1\n", libc: ns1, writes: true},
	} {
		t.Run(row.dns, func(t *testing.T) {
			n := newNode(t, bare(), func(s *setup) { s.main = []string{"dns=" + row.dns} })
			n.serveCluster()
			n.connect("eth0")
			if row.text != "" {
				n.l.WriteFile(resolvConf, row.text)
			}
			n.wantNames(siteIP, "")
			before := n.l.ReadFile(resolvConf)
			ours := strings.NewReplacer("nameserver "+row.libc, "nameserver "+nodeIP, "search ", "search cluster.local ").Replace(before)
			if ours == before {
				t.Fatalf("resolv.conf is %q", before)
			}
			n.install()
			n.await(right{Upstreams: []string{ns1}, Text: ours})
			n.wantNames(siteIP, clusterIP)
			file := identity(t)

			n.l.Nmcli("general", "reload", "dns-rc")
			n.l.Nmcli("general", "reload", "dns-full")
			n.l.Nmcli("general", "reload")
			n.await(right{Upstreams: []string{ns1}, Text: ours})
			if !sameIdentity(file, identity(t)) {
				t.Errorf("resolv.conf was written: %q", n.l.ReadFile(resolvConf))
			}
			if row.writes {
				n.displaced(func() { n.l.WriteFile(resolvConf, before) })
				n.await(right{Upstreams: []string{ns1}, Text: ours})
			}
			n.dhcp.SetNameservers(ns2)
			n.l.Nmcli("connection", "up", "eth0")
			offered := right{Upstreams: []string{ns2}, Text: ours}
			if row.dns == "none" {
				offered.Upstreams = []string{ns1} // the file is the source
			}
			n.await(offered)
			n.nm.Stop()
			n.await(offered)
			n.nm = n.l.NetworkManager(n.main...)
			n.dhcp.SetNameservers(ns1)
			n.l.Nmcli("connection", "up", "eth0")
			n.await(right{Upstreams: []string{ns1}, Text: ours})
			n.wantNames(siteIP, clusterIP)

			n.daemon.Stop()
			n.l.Run(n.program, "restore", "--if-ours")
			if got := n.l.ReadFile(resolvConf); got != before {
				t.Errorf("restored %q, want %q", got, before)
			}
			n.wantNames(siteIP, "")
		})
	}
}
