package vm

import (
	"strings"
	"testing"
)

// client runs a program on a machine that queries the node, and returns its output.
type client func(argv ...string) (string, error)

// in returns a client in a network namespace of the guest.
func (g *guest) in(namespace string) client {
	return func(argv ...string) (string, error) {
		return g.Try("ip netns exec " + namespace + " '" + strings.Join(argv, "' '") + "'")
	}
}

// awaitServing waits until resolv.conf names the node's address addr and its clients get answers
// from nameserver.
func (g *guest) awaitServing(c client, addr, nameserver string) {
	g.t.Helper()
	g.awaitNamed(addr)
	g.l.Await("the node at "+addr+" to ask "+nameserver, func() bool {
		out, err := c("dig", "+short", "+tries=1", "+timeout=5", "@"+addr, "who.test", "TXT")
		return err == nil && strings.TrimSpace(out) == `"`+nameserver+`"`
	})
	g.checkHosts()
	g.Await("the node to be ready", "node-dns wait --for=ready --timeout=5s")
}

// checkHosts is checkResolves for a host that may have no IPv4 address. For ahosts, glibc does not
// query A records there (AI_ADDRCONFIG).
func (g *guest) checkHosts() {
	g.t.Helper()
	g.Await("libc to resolve a name", "getent hosts www.up.example | grep -q 192.0.2.1")
}

// TestUnplug removes the only network card and puts it back, twice. Without a card the host has no
// address for resolv.conf, so the file becomes the original or NetworkManager's, which then has no
// nameserver. node-dns keeps its known upstreams.
func TestUnplug(t *testing.T) {
	if testing.Short() {
		t.Skip("only the full lane runs it")
	}
	g := newServingNode(t, strictest(), true)
	for range 2 {
		g.Unplug(0)
		g.Await("resolv.conf not to name the node", "! grep -q "+nodeIP+" /etc/resolv.conf")
		g.Await("the daemon to listen nowhere", "node-dns status | grep -q 'not listening because this node has no address yet'")
		g.Await("the daemon to know its upstreams", "node-dns servers | grep -q "+ns1)
		g.Plug(0)
		g.awaitServing(g.lan.Try, nodeIP, ns1)
	}
	g.checkDoctor("plugging the card in")
	g.Run("systemctl stop node-dns")
	g.awaitOriginal()
	g.checkDenials()
}

// The site of VLAN 7: its router and nameserver, and the address that its DHCP server offers.
const (
	site   = "10.79.0.53"
	siteIP = "10.79.0.100"
)

// stackedLink has the default route instead of eth0, which is below it.
type stackedLink struct {
	name             string
	up               string // nmcli commands, one per line
	addr, nameserver string
	inSite           bool // its clients are in the site of VLAN 7
}

var stackedLinks = []stackedLink{
	{name: "bond", up: `connection add type bond ifname bond0 con-name stacked autoconnect no bond.options mode=active-backup,miimon=100 ` +
		`ipv4.method manual ipv4.addresses 10.78.0.110/24 ipv4.gateway ` + router + ` ipv4.dns ` + ns2 + `
connection add type ethernet ifname eth0 con-name port autoconnect no master bond0 slave-type bond
connection up port`, addr: "10.78.0.110", nameserver: ns2},
	{name: "VLAN", up: `connection add type vlan dev eth0 id 7 ifname eth0.7 con-name stacked autoconnect no
connection add type ethernet ifname eth0 con-name port autoconnect no ipv4.method disabled ipv6.method link-local
connection up port
connection up stacked`, addr: siteIP, nameserver: site, inSite: true},
	{name: "bridge", up: `connection add type bridge ifname br0 con-name stacked autoconnect no bridge.stp no ` +
		`ipv4.method manual ipv4.addresses 10.78.0.111/24 ipv4.gateway ` + router + ` ipv4.dns ` + ns2 + `
connection add type ethernet ifname eth0 con-name port autoconnect no master br0 slave-type bridge
connection up port`, addr: "10.78.0.111", nameserver: ns2},
}

// TestStackedLinks moves the default route to a bond, a VLAN and a bridge, and back. The node's
// address and its nameservers follow.
func TestStackedLinks(t *testing.T) {
	if testing.Short() {
		t.Skip("only the full lane runs it")
	}
	g := newServingNode(t, strictest(), true)
	g.serveSite()
	for _, link := range stackedLinks {
		t.Log(link.name)
		for line := range strings.Lines(link.up) {
			g.Run("nmcli " + line)
		}
		c := client(g.lan.Try)
		if link.inSite {
			c = g.in("site")
		}
		g.awaitServing(c, link.addr, link.nameserver)
		g.checkDoctor("the default route went to the " + link.name)
		g.Run("nmcli connection delete stacked port && nmcli connection up eth0")
		g.awaitServing(g.lan.Try, nodeIP, ns1)
	}
	g.Run("systemctl stop node-dns")
	g.awaitOriginal()
	g.checkDenials()
}

// serveSite adds a second card and puts the site of VLAN 7 behind it, in a network namespace of the
// guest, because the host's kernel may not support VLANs. The frames pass the host's bridge.
func (g *guest) serveSite() {
	g.t.Helper()
	g.Wire(g.lan, "lan0")
	g.Await("the second card", "[ -e /sys/class/net/eth1 ]")
	g.Run("ip netns add site && ip link set eth1 netns site && ip -n site link set eth1 up && " +
		"ip -n site link add link eth1 name eth1.7 type vlan id 7 && ip -n site address add " + site + "/24 dev eth1.7 && ip -n site link set eth1.7 up")
	g.Run("ip netns exec site dnsmasq --conf-file=/dev/null --user=root --pid-file=/run/site.pid --no-resolv --no-hosts --bind-interfaces " +
		"--interface=eth1.7 --except-interface=lo --leasefile-ro --dhcp-authoritative --no-ping --dhcp-range=" + siteIP + "," + siteIP + ",120 " +
		"--dhcp-option=option:router," + site + " --dhcp-option=option:dns-server," + site + " --txt-record=who.test," + site +
		" --local=/test/ --address=/up.example/192.0.2.1")
}
