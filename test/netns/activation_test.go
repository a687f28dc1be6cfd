package netns

import (
	"strings"
	"testing"

	"github.com/node-dns/node-dns/internal/test/lab"
)

// TestFirstActivation: NetworkManager (1.42.4 and 1.52.1) sends dhcp4-change before up, without any
// variables. The script then captured the current content of resolv.conf.
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

// TestDualStack: DHCPv6 answers seconds after up and adds its nameserver.
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

// TestDNSNone: with dns=none a hand-written resolv.conf is the source. DHCP's nameservers used to
// be queried although the admin had turned them off. If the file names no nameserver,
// NetworkManager's own file and D-Bus have its list.
func TestDNSNone(t *testing.T) {
	for _, row := range []struct {
		name     string
		options  []option
		upstream string
		text     string
	}{
		{
			"by hand",
			[]option{withResolvConf("# by hand\nsearch old.example\nnameserver " + ns2 + "\noptions timeout:1\n")},
			ns2, "# by hand\nsearch old.example\nnameserver " + nodeIP + "\noptions timeout:1\n",
		},
		{"empty", []option{withResolvConf("")}, ns1, "search example.com\nnameserver " + nodeIP + "\n"},
		{"missing", nil, ns1, "search example.com\nnameserver " + nodeIP + "\n"},
	} {
		t.Run(row.name, func(t *testing.T) {
			n := newNode(t, append(row.options, dnsNone())...)
			n.connect("eth0")
			n.await(right{Upstreams: []string{row.upstream}, Text: row.text})
			n.l.Nmcli("connection", "up", "eth0") // a new lease must not change the upstreams
			n.await(right{Upstreams: []string{row.upstream}, Text: row.text})
		})
	}
}

// TestStaleListOfNetworkManager: a stale file in /run/NetworkManager overrode the admin's own
// nameservers while NetworkManager was running without any, because the interface was unmanaged.
func TestStaleListOfNetworkManager(t *testing.T) {
	n := newNode(t, dnsLeftToAdmin(), withResolvConf("# by hand\nnameserver "+ns2+"\n"),
		withFile("/etc/NetworkManager/conf.d/50-unmanaged.conf", "[keyfile]\nunmanaged-devices=interface-name:eth0\n"))
	n.l.WriteFile(networkManagerResolvConf, generated+"nameserver "+ns1+"\n")
	n.l.Addr("eth0", nodeIP+"/24")
	n.l.Route("default via " + router)
	n.await(right{Upstreams: []string{ns2}, Text: "# by hand\nnameserver " + nodeIP + "\n"})
}

// dnsLeftToAdmin makes NetworkManager leave resolv.conf alone without dns=none.
func dnsLeftToAdmin() option {
	return func(s *setup) { s.main = []string{"rc-manager=unmanaged"} }
}

// TestNoCluster: on a node without a cluster every unknown name without a dot was a temporary
// failure (EAI_AGAIN), because nosuch.cluster.local was queried first.
func TestNoCluster(t *testing.T) {
	program := libraries[0].program(t) // glibc
	n := newNode(t, withDHCP(func(c *lab.DHCPConfig) { c.Domain = "test" }), withFile("/etc/dnsmasq.d/local.conf", "local=/nosuch/\n"))
	n.connect("eth0")
	n.await(right{Upstreams: []string{ns1}, Search: []string{"test"}})
	if out, err := n.l.Try("getent", "hosts", "nosuch"); err == nil {
		t.Errorf("nosuch exists: %s", out)
	}
	if out := strings.TrimSpace(n.l.Run(program, "1", "nosuch")); out != "none" {
		t.Errorf("an unknown name without a dot: %s, want none (EAI_NONAME)", out)
	}
}

func TestFiveNameservers(t *testing.T) {
	all := []string{ns1, ns2, "10.77.0.55", "10.77.0.56", "10.77.0.57"} // the last three do not answer
	n := newNode(t, offering(all...))
	n.connect("eth0")
	const note = "# NOTE: the libc resolver may not support more than 3 nameservers.\n# The nameservers listed below may not be recognized.\n"
	n.await(right{Upstreams: all, Text: generated + "search example.com\nnameserver " + nodeIP + "\n" + note})
}

// TestOwnAddressOffered: a DHCP server that offers the node its own address must not make it query
// itself.
func TestOwnAddressOffered(t *testing.T) {
	n := newNode(t, offering(nodeIP, ns1))
	n.connect("eth0")
	n.await(right{Upstreams: []string{ns1}})
}

// TestOnlyOwnAddressOffered: if DHCP offers only the node's own address, the node keeps its
// upstreams.
func TestOnlyOwnAddressOffered(t *testing.T) {
	n := newNode(t, offering(ns1))
	n.connect("eth0")
	n.await(right{Upstreams: []string{ns1}})
	n.dhcp.SetNameservers(nodeIP)
	n.l.Nmcli("connection", "up", "eth0")
	n.l.Await("NetworkManager to list the node's own address", func() bool {
		return strings.Contains(n.l.ReadFile(networkManagerResolvConf), "nameserver "+nodeIP+"\n")
	})
	n.await(right{Upstreams: []string{ns1}})
	node := lab.Binary(t, "node-dns")
	const said, why = "the network offers no usable nameserver since ", "NetworkManager eth0 (eth0) names " + nodeIP + ": this node: would loop"
	for _, args := range [][]string{{"status"}, {"status", "--brief"}, {"doctor"}} {
		var out string
		n.l.Await(strings.Join(args, " ")+" to say so", func() bool {
			out, _ = n.l.Try(append([]string{node}, args...)...)
			flat := strings.Join(strings.Fields(out), " ")
			return strings.Contains(flat, said) && strings.Contains(flat, why)
		})
	}
	if log := n.daemon.Output(); strings.Count(log, said) != 1 {
		t.Errorf("the log does not report it exactly once:\n%s", log)
	}
	n.dhcp.SetNameservers(ns2)
	n.l.Nmcli("connection", "up", "eth0")
	n.await(right{Upstreams: []string{ns2}})
	n.l.Await("the status to be ready", func() bool {
		out, _ := n.l.Try(node, "status", "--brief")
		return out == "ready\n"
	})
}
