package netns

import (
	"strings"
	"testing"

	"github.com/node-dns/node-dns/internal/lab"
)

// NetworkManager (1.42.4 and 1.52.1) sends dhcp4-change before up, with no variables at all: the script captured whatever stood in
// resolv.conf then.
func TestFirstActivation(t *testing.T) {
	n := newNode(t, offering(ns1, ns2))
	n.l.WriteFile("/run/recorder", "#!/bin/sh\n{ echo \"== $1 $2\"; env; echo \"-- $1 $2\"; } >>/run/recorded\n")
	n.l.Hook("00-recorder", "/run/recorder")
	n.connect("eth0")
	n.await(right{Upstreams: []string{ns1, ns2}})
	n.l.Await("the last event", func() bool { return strings.Contains(n.l.ReadFile("/run/recorded"), "-- eth0 up\n") })
	before, after, _ := strings.Cut(n.l.ReadFile("/run/recorded"), "== eth0 up\n")
	if _, change, ok := strings.Cut(before, "== eth0 dhcp4-change\n"); !ok || strings.Contains(change, "IP4_NAMESERVERS") {
		t.Errorf("this NetworkManager sent other events:\n%s", before)
	}
	if !strings.Contains(after, "IP4_NAMESERVERS="+ns1+" "+ns2+"\n") {
		t.Errorf("up had other variables:\n%s", after)
	}
}

func TestStatic(t *testing.T) {
	n := newNode(t)
	n.connect("eth0", "ipv4.method", "manual", "ipv4.addresses", "10.77.0.7/24", "ipv4.gateway", router,
		"ipv4.dns", ns2+" "+ns1, "ipv4.dns-search", "a.example b.example")
	n.await(right{Upstreams: []string{ns2, ns1}, Node: "10.77.0.7", Search: []string{"a.example", "b.example"}})
}

func withDHCPv6(c *lab.DHCPConfig) {
	c.Range6 = nodeIP6 + "," + nodeIP6 + ",64"
	c.Nameservers = append(c.Nameservers, ns6)
}

// DHCPv6 answers seconds after up, and adds its nameserver.
func TestDualStack(t *testing.T) {
	n := newNode(t, withDHCP(withDHCPv6))
	n.connect("eth0")
	n.await(right{Upstreams: []string{ns1, ns6}})
	n.nameservers[ns1].Kill()
	n.await(right{Upstreams: []string{ns1, ns6}, Answers: ns6})
}

func TestIPv6Only(t *testing.T) {
	n := newNode(t, withDHCP(withDHCPv6))
	n.connect("eth0", "ipv4.method", "disabled")
	n.await(right{Upstreams: []string{ns6}, Node: nodeIP6})
}

// With dns=none NetworkManager's word is in its own file and on the bus; what stands in resolv.conf is nobody's.
func TestDNSNone(t *testing.T) {
	for _, row := range []struct {
		name    string
		options []option
		text    string
	}{
		{
			"stale",
			[]option{withResolvConf("# by hand\nsearch old.example\nnameserver 192.0.2.99\noptions timeout:1\n")},
			"# by hand\nsearch cluster.local old.example\nnameserver " + nodeIP + "\noptions timeout:1\n",
		},
		{"empty", []option{withResolvConf("")}, "search cluster.local example.com\nnameserver " + nodeIP + "\n"},
		{"missing", nil, "search cluster.local example.com\nnameserver " + nodeIP + "\n"},
	} {
		t.Run(row.name, func(t *testing.T) {
			n := newNode(t, append(row.options, dnsNone())...)
			n.connect("eth0")
			n.await(right{Upstreams: []string{ns1}, Text: row.text})
		})
	}
}

func TestFiveNameservers(t *testing.T) {
	all := []string{ns1, ns2, "10.77.0.55", "10.77.0.56", "10.77.0.57"} // the last three say nothing
	n := newNode(t, offering(all...))
	n.connect("eth0")
	const note = "# NOTE: the libc resolver may not support more than 3 nameservers.\n# The nameservers listed below may not be recognized.\n"
	n.await(right{Upstreams: all, Text: generated + "search cluster.local example.com\nnameserver " + nodeIP + "\n" + note})
}

// A DHCP server that offers the node its own address would make it ask itself.
func TestOwnAddressOffered(t *testing.T) {
	n := newNode(t, offering(nodeIP, ns1))
	n.connect("eth0")
	n.await(right{Upstreams: []string{ns1}})
}

// Nothing but the own address: the node keeps what it had.
func TestOnlyOwnAddressOffered(t *testing.T) {
	n := newNode(t, offering(ns1))
	n.connect("eth0")
	n.await(right{Upstreams: []string{ns1}})
	n.dhcp.SetNameservers(nodeIP)
	n.l.Nmcli("connection", "up", "eth0")
	n.l.Await("NetworkManager to say the node's own address", func() bool {
		return strings.Contains(n.l.ReadFile(networkManagerResolvConf), "nameserver "+nodeIP+"\n")
	})
	n.await(right{Upstreams: []string{ns1}})
}
