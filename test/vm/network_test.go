package vm

import (
	"strings"
	"testing"

	"github.com/node-dns/node-dns/internal/test/lab"
)

// The LAN's IPv6 side.
const (
	router6 = "fd78::1"
	ns6     = "fd78::53"
	dhcp6   = "fd78::100" // the only address that DHCPv6 offers
)

// TestIPv6: a node learns nameservers and search domains from router advertisements (RFC 8106) and
// from DHCPv6, in addition to DHCP, and then loses IPv4. Its address is first one from the
// advertised prefix (SLAAC), and then one from DHCPv6.
func TestIPv6(t *testing.T) {
	if testing.Short() {
		t.Skip("only the full lane runs it")
	}
	g := newServingNode(t, strictest(), true)
	for _, addr := range []string{router6, ns6} {
		g.lan.Run("ip", "address", "add", addr+"/64", "dev", "lan0", "nodad")
	}
	g.lan.Nameserver(ns6)
	advertise := func(range6 string, nameservers ...string) {
		g.dhcp.Stop()
		g.dhcp = g.lan.DHCP(lab.DHCPConfig{
			Interface: "lan0", Range: nodeIP + "," + nodeIP + ",255.255.255.0", Router: router, Range6: range6, Domain: "v6.example",
			Nameservers: nameservers, Options: []string{"58,20"},
		})
	}
	t.Log("both families")
	advertise("fd78::,ra-only,64", ns1, ns6)
	g.Await("the advertised nameserver to be an upstream", "node-dns servers | grep -q "+ns1+" && node-dns servers | grep -q "+ns6)
	g.awaitNamed(nodeIP)

	t.Log("router advertisements alone")
	g.dhcp.SetNameservers(ns6)
	g.Run("nmcli connection modify eth0 ipv4.method disabled && nmcli connection up eth0")
	g.Await("an address of the advertised prefix", "ip -6 -o address show dev eth0 scope global | grep -q 'inet6 fd78:'")
	slaac, _, _ := strings.Cut(strings.Fields(g.Run("ip -6 -o address show dev eth0 scope global"))[3], "/")
	g.awaitServing(g.lan.Try, slaac, ns6)
	g.checkAnswersAt(slaac)
	if got := g.resolvConf(); !strings.Contains(got, "v6.example") {
		t.Errorf("the advertised search domain is not in resolv.conf:\n%s", got)
	}
	g.checkDoctor("router advertisements alone")

	t.Log("DHCPv6")
	advertise(dhcp6+","+dhcp6+",64", ns6)
	g.Run("nmcli connection up eth0")
	g.awaitServing(g.lan.Try, dhcp6, ns6)
	g.Run("systemctl stop node-dns")
	g.Await("the original resolv.conf", "grep -qx 'nameserver "+ns6+"' /etc/resolv.conf && ! grep -q node-dns /etc/resolv.conf")
	g.checkHosts()
	g.checkDenials()
}

// TestNoCable boots a node without a network. node-dns starts and leaves resolv.conf alone until
// the cable is plugged in.
func TestNoCable(t *testing.T) {
	if testing.Short() {
		t.Skip("only the full lane runs it")
	}
	g := newNode(t, strictest(), true)
	g.Run("systemctl enable --quiet node-dns")
	g.PowerOff()
	g.Cable(0, false)
	g.Boot()
	g.Await("node-dns to be started", "systemctl is-active -q node-dns")
	g.Await("the daemon to listen nowhere", "node-dns status | grep -q 'not listening because this node has no address yet'")
	if got := g.resolvConf(); got != original {
		t.Errorf("without a network resolv.conf is\n%s", got)
	}
	g.Cable(0, true)
	g.awaitServing(g.lan.Try, nodeIP, ns1)
	g.checkAnswers()
	g.checkDoctor("plugging the cable in")
	g.Run("systemctl stop node-dns")
	g.awaitOriginal()
	g.checkDenials()
}
