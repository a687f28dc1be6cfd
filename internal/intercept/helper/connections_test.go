package helper

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/internal/intercept"
	"github.com/node-dns/node-dns/internal/test/lab"
)

// TestDeleteConnections: only the translations of UDP queries to node-dns are deleted.
func TestDeleteConnections(t *testing.T) {
	lab.New(t)
	addr := netip.MustParseAddr
	list := []served{{addr(cluster4), intercept.Translated, addr("10.0.0.5")}, {addr(cluster6), intercept.Translated, addr("fd01::5")}}
	want := []string{}
	for i, row := range []struct {
		dst, to string
		port    uint16
		proto   uint8
		isGone  bool
	}{
		{cluster4, "10.0.0.5", 53, unix.IPPROTO_UDP, true},
		{cluster6, "fd01::5", 53, unix.IPPROTO_UDP, true},
		{cluster4, "10.244.1.7", 53, unix.IPPROTO_UDP, false}, // by kube-proxy
		{cluster4, "10.0.0.5", 9153, unix.IPPROTO_UDP, false},
		{cluster4, "10.0.0.5", 53, unix.IPPROTO_TCP, false},
		{"10.96.0.11", "10.0.0.5", 53, unix.IPPROTO_UDP, false},
		{"10.0.0.5", cluster4, 53, unix.IPPROTO_UDP, false},
		{cluster6, "fd00::7", 53, unix.IPPROTO_UDP, false},
	} {
		client, family := net.IP(addr("10.128.0.2").AsSlice()), netlink.InetFamily(unix.AF_INET)
		if addr(row.dst).Is6() {
			client, family = net.IP(addr("fd01::2").AsSlice()), unix.AF_INET6
		}
		flow := &netlink.ConntrackFlow{
			FamilyType: uint8(family), TimeOut: 600,
			Forward: netlink.IPTuple{SrcIP: client, DstIP: net.IP(addr(row.dst).AsSlice()), SrcPort: uint16(30000 + i), DstPort: row.port, Protocol: row.proto},
			Reverse: netlink.IPTuple{SrcIP: net.IP(addr(row.to).AsSlice()), DstIP: client, SrcPort: row.port, DstPort: uint16(30000 + i), Protocol: row.proto},
		}
		if err := netlink.ConntrackCreate(netlink.ConntrackTable, family, flow); err != nil {
			t.Fatal(err)
		}
		if !row.isGone {
			want = append(want, fmt.Sprint(30000+i))
		}
	}
	if err := deleteConnections(list); err != nil {
		t.Error(err)
	}
	got := []string{}
	for _, family := range []netlink.InetFamily{unix.AF_INET, unix.AF_INET6} {
		flows, err := netlink.ConntrackTableList(netlink.ConntrackTable, family)
		if err != nil {
			t.Fatal(err)
		}
		for _, flow := range flows {
			if flow.TimeOut > 300 { // not of another test
				got = append(got, fmt.Sprint(flow.Forward.SrcPort))
			}
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("left are %q, want %q", got, want)
	}
}

// TestKeptSocket: a client that keeps its socket reaches the cluster's DNS pods after its
// translation to node-dns has ended. Connection tracking kept translating it, for as long as it
// sent queries.
func TestKeptSocket(t *testing.T) {
	for i, test := range []struct {
		name                    string
		cluster, node, pods, ip string // ip is the name of the family for nft
		end                     func(w *world, endNodeDNS func())
	}{
		{"node-dns ends, IPv4", cluster4, "10.128.0.5", "10.128.0.1", "ip", func(_ *world, endNodeDNS func()) { endNodeDNS() }},
		{"node-dns ends, IPv6", cluster6, "fd01::5", "fd01::1", "ip6", func(_ *world, endNodeDNS func()) { endNodeDNS() }},
		{"node-dns withdraws its request", cluster4, "10.128.0.5", "10.128.0.1", "ip", func(w *world, _ func()) {
			w.request()
			w.awaitEnd(w.helper)
		}},
		{"node-dns and then the helper stop", cluster4, "10.128.0.5", "10.128.0.1", "ip", func(w *world, endNodeDNS func()) {
			w.request()
			endNodeDNS()
			w.helper.Signal(syscall.SIGTERM)
			w.awaitEnd(w.helper)
		}},
		{"both are killed, and the helper starts again", cluster4, "10.128.0.5", "10.128.0.1", "ip", func(w *world, endNodeDNS func()) {
			w.helper.Kill()
			endNodeDNS()
			w.start()
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			lab.Need(t, "dig", "nft")
			pods := netip.MustParseAddr(test.pods)
			length, client := fmt.Sprintf("/%d", pods.BitLen()-8), pods.Next().String()
			pod := w.lab.Namespace("pod")
			w.lab.Veth("pod0", pod, "eth0")
			for _, addr := range []string{test.pods, test.node} {
				w.lab.Run("ip", "address", "add", addr+length, "dev", "pod0", "nodad")
			}
			pod.Run("ip", "address", "add", client+length, "dev", "eth0", "nodad")
			pod.Run("ip", "route", "add", "default", "via", test.pods)
			command(t, "nft", fmt.Sprintf("table %s kube-proxy { chain services { type nat hook prerouting priority dstnat; %[1]s daddr %s udp dport 53 dnat to %s; }; }", test.ip, test.cluster, test.pods))
			kept := 40000 + 1000*i // the kernel remembers the ports of other rows
			by := func(port int) string {
				out, _ := pod.Try("dig", "-b", fmt.Sprint(client, "#", port), "+short", "+tries=1", "+timeout=1", "@"+test.cluster, "version.bind", "TXT", "CH")
				return strings.Trim(out, "\"\n")
			}
			w.serveAs(test.pods, func() string { return "CoreDNS-1.12.1" })
			endNodeDNS := w.serveAs(test.node, func() string { return "node-dns 0.9.0" })
			w.requestAt(test.node, test.cluster)
			w.start()
			w.awaitState(test.cluster, true, "")
			w.await("node-dns answers", func() bool {
				kept++ // on a busy machine, the last one may have reached the pods, and still does
				return by(kept) == "node-dns 0.9.0"
			})
			test.end(w, endNodeDNS)
			w.await("the cluster's DNS pods answer", func() bool { return by(kept) == "CoreDNS-1.12.1" })
		})
	}
}

// TestSource: a program of this host that queries an intercepted address, which is local, has that
// address as its source. kube-proxy translates the query where node-dns does not answer, as it does
// for other ports. Unless it also masquerades, the cluster's DNS pods responded to that address,
// and on their own nodes.
func TestSource(t *testing.T) {
	for _, test := range []struct{ ip, cluster, node, pods, length string }{
		{"ip", cluster4, "192.0.2.1", "192.0.2.2", "/24"},
		{"ip6", cluster6, "2001:db8::1", "2001:db8::2", "/64"},
	} {
		t.Run(test.ip, func(t *testing.T) {
			l := lab.New(t)
			lab.Need(t, "dig", "nft")
			cluster, node := netip.MustParseAddr(test.cluster), netip.MustParseAddr(test.node)
			other := l.Namespace("other")
			l.Veth("other0", other, "eth0")
			l.Run("ip", "address", "add", test.node+test.length, "dev", "other0", "nodad")
			other.Run("ip", "address", "add", test.pods+test.length, "dev", "eth0", "nodad")
			command(t, "nft", fmt.Sprintf("table %s kube-proxy { chain services { type nat hook output priority -100; %[1]s daddr %s udp dport 53 dnat to %s; }; }", test.ip, test.cluster, test.pods))
			if err := addAddress(cluster); err != nil {
				t.Fatal(err)
			}
			defer removeAddress(cluster)
			if err := setReplies([]netip.Addr{cluster}, []netip.Addr{cluster}); err != nil {
				t.Fatal(err)
			}
			defer setReplies(nil, nil)
			l.Try("dig", "+tries=1", "+timeout=1", "@"+test.cluster, "version.bind", "TXT", "CH")
			family := netlink.InetFamily(unix.AF_INET)
			if cluster.Is6() {
				family = unix.AF_INET6
			}
			flows, err := netlink.ConntrackTableList(netlink.ConntrackTable, family)
			if err != nil {
				t.Fatal(err)
			}
			seen := 0
			for _, flow := range flows {
				if flow.Forward.DstIP.Equal(cluster.AsSlice()) && flow.Reverse.SrcIP.String() == test.pods {
					if seen++; !flow.Reverse.DstIP.Equal(node.AsSlice()) {
						t.Errorf("the response goes to %v, want %v", flow.Reverse.DstIP, node)
					}
				}
			}
			if seen == 0 {
				t.Error("the query is not tracked")
			}
		})
	}
}

// TestOtherPorts: a pod that may use the DNS Service's address, but not the node's, does not reach
// programs of this host through the address, which is local now.
func TestOtherPorts(t *testing.T) {
	for _, test := range []struct{ cluster, node, length string }{{cluster4, "10.128.0.1", "/24"}, {cluster6, "fd01::1", "/64"}} {
		t.Run(test.cluster, func(t *testing.T) {
			w := newWorld(t)
			lab.Need(t, "dig")
			pod := w.lab.Namespace("pod")
			w.lab.Veth("pod0", pod, "eth0")
			w.lab.Run("ip", "address", "add", test.node+test.length, "dev", "pod0", "nodad")
			pod.Run("ip", "address", "add", netip.MustParseAddr(test.node).Next().String()+test.length, "dev", "eth0", "nodad")
			pod.Run("ip", "route", "add", "default", "via", test.node)
			ask := func(try func(argv ...string) (string, error), to, port, network string) string {
				out, _ := try("dig", "-p", port, network, "+short", "+tries=1", "+timeout=30", "@"+to, "version.bind", "TXT", "CH")
				return strings.Trim(out, "\"\n")
			}
			w.serveOn("", "5353", func() string { return "another program" })
			w.request(test.cluster)
			w.start()
			w.serve(test.cluster)
			w.awaitState(test.cluster, true, "")
			for _, network := range []string{"+notcp", "+tcp"} {
				if got := ask(pod.Try, test.node, "5353", network); got != "another program" {
					t.Errorf("%s, at the node's address, the pod got %q", network, got)
				}
				if got := ask(pod.Try, test.cluster, "5353", network); !strings.Contains(got, "refused") {
					t.Errorf("%s, at the Service's address, the pod got %q", network, got)
				}
				if got := ask(w.lab.Try, test.cluster, "5353", network); got != "another program" {
					t.Errorf("%s, at the Service's address, this host got %q", network, got)
				}
				if got := ask(pod.Try, test.cluster, "53", network); got != "node-dns 0.9.0" {
					t.Errorf("%s, the pod's query for node-dns got %q", network, got)
				}
			}
		})
	}
}
