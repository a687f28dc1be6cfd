package netns

import (
	"encoding/binary"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/test/lab"
)

// TestStrangers: the clients allowed by default if the networks of the pods are known: a pod, a
// neighbor, and a pod with its own route once that exists. A client behind a router is only allowed
// after allowFrom permits it.
func TestStrangers(t *testing.T) {
	n := newPodNode(t, "", "www.example.com. 300 IN A 192.0.2.80\n", "podCIDRs: [10.128.0.0/14]\n")
	stranger := n.l.Namespace("stranger")
	n.l.Veth("out0", stranger, "eth0")
	n.l.Addr("out0", "192.0.2.1/24")
	stranger.Run("ip", "addr", "add", "192.0.2.2/24", "dev", "eth0")
	stranger.Run("ip", "addr", "add", "203.0.113.9/32", "dev", "lo")
	stranger.Run("ip", "route", "add", bridgeIP+"/32", "via", "192.0.2.1")
	n.l.Run("ip", "route", "add", "203.0.113.0/24", "via", "192.0.2.2")

	asks := func(machine *lab.Namespace, from string) string {
		return machine.Run("dig", "-b", from, "+tries=1", "+time=5", "+noall", "+comments", "+answer", "@"+bridgeIP, "www.example.com.")
	}
	answered := func(text string) bool { return strings.Contains(text, "192.0.2.80") }
	refused := func(text string) bool {
		return strings.Contains(text, "status: REFUSED") && strings.Contains(text, "EDE: 18 (Prohibited)")
	}
	if text := asks(n.pod, podIP); !answered(text) {
		t.Errorf("a pod:\n%s", text)
	}
	n.l.Await("the neighbor's network to be allowed", func() bool { return answered(asks(stranger, "192.0.2.2")) })
	if text := asks(stranger, "203.0.113.9"); !refused(text) {
		t.Errorf("a client behind a router:\n%s", text)
	}
	status, err := control.FetchStatus(t.Context(), control.SocketPath("/"))
	if err != nil || status.Queries.Limits.Strangers == 0 || !strings.Contains(strings.Join(status.Clients.Networks, " "), "192.0.2.0/24") {
		t.Errorf("%v: %+v, %+v", err, status.Clients, status.Queries)
	}
	n.l.Run("ip", "route", "add", "203.0.113.9/32", "dev", "out0", "scope", "link")
	stranger.Run("ip", "route", "replace", bridgeIP+"/32", "via", "192.0.2.1")
	n.l.Await("the separate route to count", func() bool { return answered(asks(stranger, "203.0.113.9")) })
	n.l.Run("ip", "route", "del", "203.0.113.9/32", "dev", "out0")
	n.l.Await("the removed route to be ignored", func() bool { return refused(asks(stranger, "203.0.113.9")) })
	n.l.WriteFile("/etc/node-dns/node-dns.yaml", clusterSettings+"upstreams: [\""+n.site.Addr().String()+"\"]\npodCIDRs: [10.128.0.0/14]\nallowFrom: all\n")
	n.l.Await("allowFrom: all to take effect", func() bool { return answered(asks(stranger, "203.0.113.9")) })
}

// TestForgedNeighbors: the kernel keeps the answers to addresses that no host of the LAN has in the
// send buffer for 3 s. 300 queries from such addresses filled the kernel's default buffer, and
// neighbors that exist got no answer.
func TestForgedNeighbors(t *testing.T) {
	const perPacket, defaultBuffer = 768, 212992
	n := newNode(t, byHand(func(l *lab.Lab) {
		l.WriteFile("/etc/node-dns/node-dns.yaml", "upstreams: ["+ns1+"]\n")
		l.WriteFile(resolvConf, "nameserver "+ns1+"\n")
	}))
	localhost := new(dns.Msg).SetQuestion("localhost.", dns.TypeA)
	n.l.Await("the node to answer", func() bool {
		_, err := dns.Exchange(localhost, nodeIP+":53")
		return err == nil
	})
	query, err := localhost.Pack()
	if err != nil {
		t.Fatal(err)
	}
	answered := 0
	err = n.lan.Inside(func() {
		var one unix.CPUSet // queries that arrive on one CPU reach one socket
		if err = unix.SchedGetaffinity(0, &one); err == nil {
			for cpu := 0; one.Count() > 1; cpu++ {
				one.Clear(cpu)
			}
			err = unix.SchedSetaffinity(0, &one)
		}
		raw, failed := unix.Socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_RAW)
		if err != nil || failed != nil {
			t.Error(err, failed)
			return
		}
		defer unix.Close(raw)
		for i := range defaultBuffer * 14 / 10 / perPacket {
			packet := forged(net.IPv4(10, 77, 0, byte(101+i%100)), net.ParseIP(nodeIP), query)
			if err := unix.Sendto(raw, packet, 0, &unix.SockaddrInet4{Addr: [4]byte(net.ParseIP(nodeIP).To4())}); err != nil {
				t.Error(err)
			}
		}
		for range 5 {
			client := dns.Client{Timeout: 2 * time.Second}
			if _, _, err := client.Exchange(localhost, nodeIP+":53"); err == nil {
				answered++
			}
		}
	})
	if err != nil || answered != 5 {
		t.Errorf("%d of 5 queries of a neighbor were answered, %v", answered, err)
	}
}

// forged returns an IPv4 packet with a UDP datagram for port 53.
func forged(from, to net.IP, payload []byte) []byte {
	packet := make([]byte, 28, 28+len(payload)) // the kernel adds the total length, ID and checksum
	packet[0], packet[8], packet[9] = 4<<4|5, 64, unix.IPPROTO_UDP
	copy(packet[12:], from.To4())
	copy(packet[16:], to.To4())
	binary.BigEndian.PutUint16(packet[20:], 40000)
	binary.BigEndian.PutUint16(packet[22:], 53)
	binary.BigEndian.PutUint16(packet[24:], uint16(8+len(payload)))
	return append(packet, payload...)
}
