package nspawn

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// owner is who has the node's resolv.conf besides node-dns.
type owner struct {
	name string
	// own makes it so, on a node that has booted without node-dns, and returns when libc has names by it.
	own func(n *node)
	// offer has the owner's source name another nameserver: by a lease, a command, or the owner's configuration.
	offer func(n *node, nameserver string)
	// again has the owner do its work once more, with nothing new.
	again func(n *node)
}

// TestOwners: whoever has resolv.conf, libc has names of both worlds while node-dns answers, upstreams are followed where they come from,
// nobody fights, and what the owner made stands there afterwards.
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
				n.Run("ln", "-sf", "../run/resolvconf/resolv.conf", resolvConf) // its script leaves that to debconf
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
				n.Run("systemctl", "restart", "NetworkManager.service") // dns=none from now on
			},
			offer: (*node).cloudInitAnew, again: func(n *node) { n.cloudInit(ns1) }, // with dns=none its file is the source, and not DHCP
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
	for range 3 { // and the offer: one more within a minute would be a fight
		o.again(n)
		n.awaitServing()
	}
	n.awaitApplied()
	if now := settings(n.ReadFile(resolvConf)); now != ours {
		n.t.Errorf("resolv.conf is now\n%s\nand was\n%s", now, ours)
	}
	o.offer(n, ns2)
	n.Await("the other nameserver to answer", func() bool { return n.ask() == ns2 })
	n.awaitPointed()
	if text := n.ReadFile("/etc/origin/node/resolv.conf"); !strings.HasPrefix(text, "nameserver "+ns2+"\n") || strings.Count(text, "nameserver ") != 1 {
		n.t.Errorf("captured %q", text)
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
		n.t.Errorf("there was a fight:\n%s", text)
	}
}

// settings are a resolv.conf's lines but the comments, sorted: cloud-init adds to a file that it finds, in an order of its own.
func settings(text string) string {
	lines := slices.DeleteFunc(slices.Sorted(strings.Lines(text)), func(line string) bool {
		return strings.TrimSpace(line) == "" || strings.HasPrefix(line, "#") || strings.HasPrefix(line, ";")
	})
	return strings.Join(lines, "")
}

// withoutNetworkManager leaves eth0 its address and its route, and resolv.conf to whoever wants it.
func (n *node) withoutNetworkManager() {
	n.t.Helper()
	n.Run("systemctl", "disable", "--now", "NetworkManager.service")
	n.Run("rm", "-rf", "/run/NetworkManager") // as at the next boot
	n.Run("sh", "-c", "ip addr replace "+nodeIP+"/24 dev eth0; ip route replace default via "+router)
	if err := os.Remove(n.Path(resolvConf)); err != nil {
		n.t.Fatal(err)
	}
}

// resolvconf is what a DHCP client does when it has a lease.
func (n *node) resolvconf(nameserver string) {
	n.t.Helper()
	n.Run("sh", "-c", "printf 'search example.com\\nnameserver "+nameserver+"\\n' | resolvconf -a eth0.dhcp")
}

// lease has NetworkManager get another nameserver by DHCP.
func (n *node) lease(nameserver string) {
	n.t.Helper()
	n.dhcp.SetNameservers(nameserver)
	n.Run("nmcli", "connection", "up", "eth0")
}

// cloudInit has cloud-init write what it writes on a RHEL for a network with static nameservers.
func (n *node) cloudInit(nameserver string) {
	n.t.Helper()
	n.renderCloudInit(nameserver, "/")
}

// cloudInitAnew replaces resolv.conf by what cloud-init writes where there is none: in a file that is there it only adds nameservers.
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
