package nspawn

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// owner is another program that owns the node's resolv.conf.
type owner struct {
	name string
	// own sets up the owner on a node that booted without node-dns, and returns once libc can
	// resolve names with it.
	own func(n *node)
	// offer changes the nameserver in the owner's source: by a lease, a command, or the owner's
	// configuration.
	offer func(n *node, nameserver string)
	// again makes the owner repeat its work without a change.
	again func(n *node)
}

// TestOwners: with any owner of resolv.conf, libc resolves the site's and the cluster's names while
// node-dns answers, node-dns follows the owner's upstreams, the two do not keep overwriting each
// other, and afterwards the owner's file is back.
func TestOwners(t *testing.T) {
	for _, o := range []owner{
		{
			name: "openresolv",
			own: func(n *node) {
				n.withoutNetworkManager()
				n.Install("openresolv")
				n.resolvconf(ns1)
			},
			offer: (*node).resolvconf, again: func(n *node) { n.Run("resolvconf", "-u") },
		},
		{
			name: "openresolv for NetworkManager",
			own: func(n *node) {
				n.Install("openresolv")
				n.WriteFile("/etc/NetworkManager/conf.d/resolvconf.conf", "[main]\nrc-manager=resolvconf\n", 0o644)
				n.Run("systemctl", "restart", "NetworkManager.service")
			},
			offer: (*node).lease, again: func(n *node) { n.Run("nmcli", "general", "reload", "dns-rc") },
		},
		{
			name: "resolvconf",
			own: func(n *node) {
				n.withoutNetworkManager()
				n.Install("resolvconf")
				n.Run("ln", "-sf", "../run/resolvconf/resolv.conf", resolvConf) // its script leaves the link to debconf
				n.resolvconf(ns1)
			},
			offer: (*node).resolvconf, again: func(n *node) { n.Run("resolvconf", "-u") },
		},
		{
			name: "cloud-init",
			own: func(n *node) {
				n.Install("cloud-init")
				n.Run("rm", resolvConf)
				n.cloudInit(ns1)
				n.Run("systemctl", "restart", "NetworkManager.service") // activates dns=none
			},
			offer: (*node).cloudInitAnew, again: func(n *node) { n.cloudInit(ns1) }, // with dns=none its file is the source, not DHCP
		},
	} {
		t.Run(o.name, func(t *testing.T) { o.test(newNode(t)) })
	}
}

func (o owner) test(n *node) {
	n.serveCluster()
	n.boot()
	n.awaitOriginal()
	o.own(n)
	n.Await("the owner's resolv.conf", func() bool {
		text := n.ReadFile(resolvConf)
		return strings.Contains(text, "nameserver "+ns1+"\n") && !strings.Contains(text, "by NetworkManager\n")
	})
	n.wantNames("192.0.2.1", "")
	before, link := n.ReadFile(resolvConf), n.stubbed()

	n.Run("systemctl", "start", "node-dns.service")
	n.awaitServing()
	n.wantNames("192.0.2.1", clusterIP)
	ours := settings(n.ReadFile(resolvConf))
	for range 3 { // plus the offer: one more within a minute would count as a conflict
		o.again(n)
		n.awaitServing()
	}
	n.awaitApplied()
	if now := settings(n.ReadFile(resolvConf)); now != ours {
		n.t.Errorf("got resolv.conf\n%s\nand was\n%s", now, ours)
	}
	o.offer(n, ns2)
	n.Await("the other nameserver to answer", func() bool { return n.ask() == ns2 })
	n.awaitPointed()
	if text := n.ReadFile("/etc/origin/node/resolv.conf"); !strings.HasPrefix(text, "nameserver "+ns2+"\n") || strings.Count(text, "nameserver ") != 1 {
		n.t.Errorf("got the captured file %q", text)
	}
	n.wantNames("192.0.2.1", clusterIP)

	n.Run("systemctl", "stop", "node-dns.service")
	want := strings.ReplaceAll(before, ns1, ns2)
	if got := n.ReadFile(resolvConf); got != want || n.stubbed() != link {
		n.t.Errorf("after the stop resolv.conf, a link to %q, is\n%s\nwant one to %q\n%s", n.stubbed(), got, link, want)
	}
	n.wantNames("192.0.2.1", "")
	o.offer(n, ns1)
	n.Await("the owner to go on", func() bool { return n.ReadFile(resolvConf) == before })
	n.Run("systemctl", "start", "node-dns.service")
	n.awaitServing()
	n.Run("systemctl", "stop", "node-dns.service")
	if got := n.ReadFile(resolvConf); got != before || n.stubbed() != link {
		n.t.Errorf("after the second stop resolv.conf, a link to %q, is\n%s", n.stubbed(), got)
	}
	if text := n.Journal("-t", "origin-dns-dispatcher"); strings.Contains(text, "condition=resolv-conf-fought") {
		n.t.Errorf("the journal reports a conflict:\n%s", text)
	}
}

// settings returns a resolv.conf's lines without comments, sorted: cloud-init adds to an existing
// file in its own order.
func settings(text string) string {
	lines := slices.DeleteFunc(slices.Sorted(strings.Lines(text)), func(line string) bool {
		return strings.TrimSpace(line) == "" || strings.HasPrefix(line, "#") || strings.HasPrefix(line, ";")
	})
	return strings.Join(lines, "")
}

// withoutNetworkManager stops NetworkManager but keeps eth0's address and route, so that another
// program can own resolv.conf.
func (n *node) withoutNetworkManager() {
	n.t.Helper()
	n.Run("systemctl", "disable", "--now", "NetworkManager.service")
	n.Run("rm", "-rf", "/run/NetworkManager") // as at the next boot
	n.Run("sh", "-c", "ip addr replace "+nodeIP+"/24 dev eth0; ip route replace default via "+router)
	if err := os.Remove(n.Path(resolvConf)); err != nil {
		n.t.Fatal(err)
	}
}

// resolvconf does what a DHCP client does when it gets a lease.
func (n *node) resolvconf(nameserver string) {
	n.t.Helper()
	n.Run("sh", "-c", "printf 'search example.com\\nnameserver "+nameserver+"\\n' | resolvconf -a eth0.dhcp")
}

// lease makes NetworkManager get another nameserver by DHCP.
func (n *node) lease(nameserver string) {
	n.t.Helper()
	n.dhcp.SetNameservers(nameserver)
	n.Run("nmcli", "connection", "up", "eth0")
}

// cloudInit makes cloud-init write its file for a network with static nameservers on RHEL.
func (n *node) cloudInit(nameserver string) {
	n.t.Helper()
	n.renderCloudInit(nameserver, "/")
}

// cloudInitAnew replaces resolv.conf by the file that cloud-init writes if there is none. It only
// adds nameservers to an existing file.
func (n *node) cloudInitAnew(nameserver string) {
	n.t.Helper()
	n.Run("rm", "-rf", "/root/new")
	n.renderCloudInit(nameserver, "/root/new")
	n.Run("mv", "/root/new"+resolvConf, resolvConf)
}

func (n *node) renderCloudInit(nameserver, directory string) {
	n.t.Helper()
	n.WriteFile("/root/network.yaml", `version: 1
config:
- type: physical
  name: eth0
  subnets:
  - type: dhcp
- type: nameserver
  address: [`+nameserver+`]
  search: [example.com]
`, 0o644)
	n.Run("cloud-init", "devel", "net-convert", "--network-data=/root/network.yaml", "--kind=yaml", "--directory="+directory, "--distro=rhel", "--output-kind=sysconfig")
}
