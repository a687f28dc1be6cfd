package netns

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/node-dns/node-dns/internal/test/lab"
)

// TestRenewal: NetworkManager 1.42 raises no event for a renewal with other nameservers. The daemon
// must notice the change.
func TestRenewal(t *testing.T) {
	n := newNode(t, withDHCP(func(c *lab.DHCPConfig) { c.Options = []string{"58,3"} }))
	n.connect("eth0")
	n.await(right{Upstreams: []string{ns1}})
	if err := os.Remove(installedHook); err != nil { // NetworkManager 1.52 has an event for it, which must not be the trigger
		t.Fatal(err)
	}
	n.dhcp.SetNameservers(ns2, ns1)
	n.await(right{Upstreams: []string{ns2, ns1}})
}

// TestReapply: the event variables of a reapply have the old values.
func TestReapply(t *testing.T) {
	n := newNode(t)
	n.connect("eth0")
	n.await(right{Upstreams: []string{ns1}})
	n.reapply("ipv4.dns-search", "new.example")
	n.await(right{Upstreams: []string{ns2}, Search: []string{"new.example"}})
}

// reapply sets eth0's nameserver to ns2 and adds settings, repeatedly until NetworkManager applies
// them. If the lease is only milliseconds old, 1.42.4 reports success but keeps the old ones. A
// retry only has an effect with another change, hence the priority.
func (n *node) reapply(settings ...string) {
	n.t.Helper()
	priority := 50
	n.l.Await("NetworkManager to apply the reapply", func() bool {
		priority--
		change := []string{"connection", "modify", "eth0", "ipv4.dns", ns2, "ipv4.ignore-auto-dns", "yes", "ipv4.dns-priority", strconv.Itoa(priority)}
		n.l.Nmcli(append(change, settings...)...)
		n.l.Nmcli("device", "reapply", "eth0")
		return lab.Poll(500*time.Millisecond, func() bool {
			return strings.Contains(n.l.ReadFile(networkManagerResolvConf), "nameserver "+ns2)
		})
	})
}

// TestReloadRC: NetworkManager overwrites our resolv.conf and raises no event.
func TestReloadRC(t *testing.T) {
	n := newNode(t)
	n.connect("eth0")
	n.await(right{Upstreams: []string{ns1}})
	n.displaced(func() { n.l.Nmcli("general", "reload", "dns-rc") })
	n.await(right{Upstreams: []string{ns1}})
}

// TestTrampled: another tool writes its own resolv.conf. The captured upstreams stay, and its
// nameserver is not used.
func TestTrampled(t *testing.T) {
	n := newNode(t)
	n.connect("eth0")
	n.await(right{Upstreams: []string{ns1}})
	n.displaced(n.trample)
	n.await(right{Upstreams: []string{ns1}, Text: trampled})
}

// trample writes resolv.conf like a tool that ignores all others. trampled is the resolv.conf that
// we make of it, below our line.
func (n *node) trample() { n.l.WriteFile(resolvConf, "nameserver 192.0.2.1\n") }

const trampled = "nameserver " + nodeIP + "\nsearch example.com\n"

// displaced overwrites resolv.conf with displace and waits until a new file with our line replaces
// it, because the daemon requested it.
func (n *node) displaced(displace func()) {
	n.t.Helper()
	before, err := os.Stat(resolvConf)
	if err != nil {
		n.t.Fatal(err)
	}
	displace()
	n.l.Await("our resolv.conf to come back", func() bool {
		now, err := os.Stat(resolvConf)
		return err == nil && !os.SameFile(before, now) && strings.Contains(n.l.ReadFile(resolvConf), "99-origin-dns.sh")
	})
}

// secondLAN is a management network with its own nameserver.
const (
	ip2     = "10.88.0.7"
	router2 = "10.88.0.1"
	nsLAN2  = "10.88.0.53"
)

func (n *node) addSecondLAN() {
	n.t.Helper()
	n.l.Veth("eth1", n.lan, "lan1")
	n.serveLAN("lan1", router2, nsLAN2)
}

// TestSecondInterface: a second interface with a less preferred default route changes nothing.
// Without the first interface it is the only source.
func TestSecondInterface(t *testing.T) {
	n := newNode(t)
	n.addSecondLAN()
	n.connect("eth0")
	first := right{Upstreams: []string{ns1}}
	n.await(first)
	n.displaced(func() {
		n.connect("eth1", "ipv4.method", "manual", "ipv4.addresses", ip2+"/24", "ipv4.gateway", router2, "ipv4.dns", nsLAN2, "ipv4.route-metric", "900")
	})
	n.await(first)
	n.l.Nmcli("connection", "down", "eth0")
	n.await(right{Upstreams: []string{nsLAN2}, Node: ip2, Search: []string{}})
	n.l.Nmcli("connection", "up", "eth0")
	n.await(first)
	n.l.Nmcli("connection", "down", "eth1")
	n.await(first)
}

// TestDefaultRouteMoves: pods keep their nameserver address for life. When a second interface got a
// better default route, the node IP moved and the old address refused its pods at once, although it
// was still local.
func TestDefaultRouteMoves(t *testing.T) {
	n := newNode(t)
	n.addSecondLAN()
	n.connect("eth0")
	n.await(right{Upstreams: []string{ns1}})
	n.connect("eth1", "ipv4.method", "manual", "ipv4.addresses", ip2+"/24", "ipv4.gateway", router2, "ipv4.dns", nsLAN2, "ipv4.route-metric", "50")
	moved := right{Upstreams: []string{nsLAN2}, Routes: []string{"example.com/" + ns1}, Node: ip2}
	n.await(moved)
	for _, when := range []string{"after the move", "after a restart"} {
		if got := ask(nodeIP, "who.test."); got != nsLAN2 {
			t.Errorf("%s the address that pods have answers %q, want %q", when, got, nsLAN2)
		}
		n.daemon.Stop()
		n.daemon = startDaemon(t, n.l)
		n.await(moved)
	}
	n.l.Nmcli("connection", "modify", "eth0", "ipv4.method", "disabled", "ipv6.method", "link-local")
	n.l.Nmcli("connection", "up", "eth0")
	n.l.Await("the daemon to leave the removed address", func() bool {
		out, _ := n.l.Try(lab.Binary(t, "node-dns"), "status")
		return !strings.Contains(out, nodeIP+":53")
	})
}

// TestContainerBridge: dnsmasq also answered at docker0's address, which containers may use as
// their nameserver. If another program holds that address, a note reports it.
func TestContainerBridge(t *testing.T) {
	const docker = "172.17.0.1"
	n := newNode(t)
	n.connect("eth0")
	n.await(right{Upstreams: []string{ns1}})
	n.l.Run("ip", "link", "add", "docker0", "type", "bridge")
	n.l.Run("ip", "address", "add", docker+"/16", "dev", "docker0")
	n.l.Run("ip", "link", "set", "docker0", "up")
	n.l.Await("docker0's address to answer", func() bool { return ask(docker, "who.test.") == ns1 })
	n.await(right{Upstreams: []string{ns1}})
	n.daemon.Stop()
	other := n.l.Start(lab.Command{Argv: []string{
		"dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--user=root", "--pid-file", "--no-resolv", "--no-hosts",
		"--bind-interfaces", "--except-interface=lo", "--listen-address=" + docker, "--txt-record=who.test,other",
	}})
	n.l.Await("the other program to answer", func() bool { return ask(docker, "who.test.") == "other" })
	n.daemon = startDaemon(t, n.l)
	n.await(right{Upstreams: []string{ns1}})
	if out, err := n.l.Try(lab.Binary(t, "node-dns"), "status"); err != nil || !strings.Contains(out, "another program uses "+docker+":53, which pods may query") {
		t.Errorf("status: %v\n%s", err, out)
	}
	other.Kill()
	n.l.Await("docker0's address to answer again", func() bool { return ask(docker, "who.test.") == ns1 })
}

// TestSplitDomain: a VPN's nameserver is only queried for the VPN's domain.
func TestSplitDomain(t *testing.T) {
	n := newNode(t)
	n.addSecondLAN()
	n.connect("eth0")
	n.await(right{Upstreams: []string{ns1}})
	n.connect("eth1", "ipv4.method", "manual", "ipv4.addresses", ip2+"/24", "ipv4.never-default", "yes",
		"ipv4.dns", nsLAN2, "ipv4.dns-search", "~corp.test")
	n.await(right{Upstreams: []string{ns1}, Routes: []string{"corp.test/" + nsLAN2}})
	n.l.Await("the VPN's nameserver to answer for its domain", func() bool { return ask(nodeIP, "who.corp.test.") == nsLAN2 })
	n.l.Nmcli("connection", "down", "eth1")
	n.await(right{Upstreams: []string{ns1}})
	n.l.Await("the first nameserver to answer again", func() bool { return ask(nodeIP, "who.corp.test.") == ns1 })
}

// TestRestore: restore permanently restores the file that NetworkManager wrote.
func TestRestore(t *testing.T) {
	n := newNode(t)
	n.connect("eth0")
	n.await(right{Upstreams: []string{ns1}})
	n.daemon.Stop()
	n.l.Run(n.program, "restore")
	if want, got := n.l.ReadFile(networkManagerResolvConf), n.l.ReadFile(resolvConf); got != want || !strings.Contains(got, "nameserver "+ns1) {
		t.Errorf("restored %q, want %q", got, want)
	}
}
