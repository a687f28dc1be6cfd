package netns

import (
	"fmt"
	"net"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/test/lab"
)

// listenAll is a machine without NetworkManager. Its daemon listens on every address, and the LAN
// queries it.
type listenAll struct {
	t      *testing.T
	l      *lab.Lab
	lan    *lab.Namespace
	daemon *lab.Process
}

func newListenAll(t *testing.T) *listenAll {
	t.Helper()
	lab.Need(t, "dig")
	m := &listenAll{t: t, l: lab.New(t)}
	m.lan = m.l.Namespace("lan")
	m.l.Veth("eth0", m.lan, "lan0")
	for _, prefix := range []string{router + "/24", "fd77::1/64", dup6 + "/64"} {
		m.lan.Run("ip", "addr", "add", prefix, "dev", "lan0")
	}
	m.l.Addr("eth0", nodeIP+"/24")
	m.l.Route("default via " + router)
	m.l.WriteFile("/etc/node-dns/node-dns.yaml", "listen: all\nupstreams: ["+ns1+"]\n")
	m.daemon = startDaemon(t, m.l)
	return m
}

// dup6 is an address that another host on the LAN has.
const dup6 = "fd77::dd"

// TestListenAll follows address changes of a machine: new addresses answer, removed ones are
// dropped, and the others stay as they are.
func TestListenAll(t *testing.T) {
	m := newListenAll(t)
	m.l.Run("ip", "addr", "add", "10.1.1.1/32", "dev", "lo") // lo is excluded, regardless of its addresses
	linkLocal := m.linkLocal("eth0")
	m.listens("at the start", nodeIP, linkLocal)
	m.refuses("127.0.0.1")
	m.refuses("10.1.1.1")
	kept := m.sockets(nodeIP)

	m.l.Addr("eth0", "10.77.0.101/24")
	m.listens("a second IPv4 address", nodeIP, "10.77.0.101", linkLocal)
	m.l.Addr("eth0", nodeIP6+"/64")
	m.listens("an IPv6 address", nodeIP, "10.77.0.101", linkLocal, nodeIP6)
	m.l.Run("ip", "addr", "del", "10.77.0.101/24", "dev", "eth0")
	m.listens("the second IPv4 address goes", nodeIP, linkLocal, nodeIP6)

	m.l.Veth("eth1", m.lan, "lan1")
	m.lan.Run("ip", "addr", "add", router2+"/24", "dev", "lan1")
	m.l.Addr("eth1", ip2+"/24")
	second := m.linkLocal("eth1")
	m.listens("a second link", nodeIP, linkLocal, nodeIP6, ip2, second)
	m.l.Run("ip", "link", "set", "eth1", "down")
	m.listens("the second link is down", nodeIP, linkLocal, nodeIP6)
	m.l.Run("ip", "link", "set", "eth1", "up")
	m.listens("and up", nodeIP, linkLocal, nodeIP6, ip2, second)
	m.l.Run("ip", "link", "del", "eth1")
	m.listens("the second link goes", nodeIP, linkLocal, nodeIP6)
	if now := m.sockets(nodeIP); !slices.Equal(now, kept) {
		t.Errorf("the sockets at %s changed to %v, want %v", nodeIP, now, kept)
	}

	m.l.Run("ip", "addr", "del", nodeIP+"/24", "dev", "eth0")
	m.listens("the node IP goes", linkLocal, nodeIP6)
	m.l.Addr("eth0", "10.77.0.102/24")
	m.listens("another takes its place", "10.77.0.102", linkLocal, nodeIP6)
}

// TestListenAllTentative: an address cannot be bound while duplicate address detection is running
// (bind(2) fails), and never if another host has it.
func TestListenAllTentative(t *testing.T) {
	m := newListenAll(t)
	linkLocal := m.linkLocal("eth0")
	m.listens("at the start", nodeIP, linkLocal)
	m.detectDuplicates(100)
	m.l.Addr("eth0", nodeIP6+"/64", dup6+"/64")
	m.l.Addr("eth0", "10.77.0.101/24")
	m.listens("duplicate address detection runs", nodeIP, "10.77.0.101", linkLocal)
	if got := m.l.Run("ip", "-6", "addr", "show", "dev", "eth0", "tentative"); !strings.Contains(got, nodeIP6) {
		t.Errorf("%s is not tentative:\n%s", nodeIP6, got)
	}
	m.l.Await("the kernel to detect the duplicate of "+dup6, func() bool {
		return strings.Contains(m.l.Run("ip", "-6", "addr", "show", "dev", "eth0", "dadfailed"), dup6)
	})
	m.detectDuplicates(1)
	m.l.Run("ip", "addr", "del", nodeIP6+"/64", "dev", "eth0")
	m.l.Addr("eth0", nodeIP6+"/64")
	m.listens("duplicate address detection is over", nodeIP, "10.77.0.101", linkLocal, nodeIP6)
}

// detectDuplicates sets how many times, a second apart, the kernel probes for duplicates of a new
// IPv6 address of eth0.
func (m *listenAll) detectDuplicates(times int) {
	m.t.Helper()
	for name, value := range map[string]int{"accept_dad": 1, "dad_transmits": times} {
		m.l.Run("sh", "-c", fmt.Sprintf("echo %d >/proc/sys/net/ipv6/conf/eth0/%s", value, name))
	}
}

// linkLocal waits for the link-local address of a link and returns it with its zone.
func (m *listenAll) linkLocal(link string) string {
	m.t.Helper()
	var addr string
	m.l.Await(link+"'s link-local address", func() bool {
		fields := strings.Fields(m.l.Run("ip", "-6", "-o", "addr", "show", "dev", link, "scope", "link"))
		if i := slices.Index(fields, "inet6"); i >= 0 {
			addr, _, _ = strings.Cut(fields[i+1], "/")
		}
		return addr != ""
	})
	return addr + "%" + link
}

// listening returns the addresses in the daemon's status. Failed ones are marked.
func (m *listenAll) listening() []string {
	status, err := control.FetchStatus(m.t.Context(), control.SocketPath("/"))
	if err != nil {
		return []string{err.Error()}
	}
	var all []string
	for _, l := range status.Listeners {
		host, _, _ := net.SplitHostPort(l.Address)
		if !l.UDP || !l.TCP || l.Error != "" {
			host += fmt.Sprintf(" FAILED %+v", l)
		}
		all = append(all, host)
	}
	slices.Sort(all)
	return all
}

// listens waits until the daemon listens on exactly these addresses, according to the daemon and
// the kernel. Then the LAN must get answers from all of them, over UDP and TCP.
func (m *listenAll) listens(when string, addrs ...string) {
	m.t.Helper()
	slices.Sort(addrs)
	var says, has []string
	if !lab.Poll(20*time.Second, func() bool {
		says, has = m.listening(), m.bound()
		return slices.Equal(says, addrs) && slices.Equal(has, addrs)
	}) {
		m.t.Fatalf("%s: want sockets at %v; the daemon reports %v, the kernel %v", when, addrs, says, has)
	}
	for _, addr := range addrs {
		for _, proto := range []string{"+notcp", "+tcp"} {
			if got := m.askFromLAN(addr, proto); got != "127.0.0.1" {
				m.t.Errorf("%s: at %s %s the LAN gets %q", when, addr, proto, got)
			}
		}
	}
	if !m.daemon.Running() {
		m.t.Fatalf("%s: the daemon ended", when)
	}
}

// askFromLAN queries a name that the daemon answers itself, so that no upstream is needed.
func (m *listenAll) askFromLAN(addr, proto string) string {
	if host, link, zoned := strings.Cut(addr, "%"); zoned {
		addr = host + "%" + strings.Replace(link, "eth", "lan", 1) // the other end of the same link
	}
	out, err := m.lan.Try("dig", "+short", "+tries=1", "+time=2", proto, "@"+addr, "localhost", "A")
	if err != nil {
		return out + err.Error()
	}
	return strings.TrimSpace(out)
}

// refuses checks that nothing listens at a local address.
func (m *listenAll) refuses(addr string) {
	m.t.Helper()
	for _, proto := range []string{"udp", "tcp"} {
		if got := askOver(proto, addr, "localhost."); !strings.Contains(got, "refused") {
			m.t.Errorf("%s answers over %s: %s", addr, proto, got)
		}
	}
}

// socketsEach is the number of sockets per address: one for TCP, and for UDP one per CPU, up to 4.
func socketsEach() int { return 1 + min(runtime.GOMAXPROCS(0), 4) }

// bound returns the addresses of the kernel's sockets at port 53, over UDP and TCP. Those with an
// unexpected number of sockets are marked.
func (m *listenAll) bound() []string {
	m.t.Helper()
	count := map[string]int{}
	for line := range strings.Lines(m.l.Run("ss", "-Hlnut", "sport = :53")) {
		local := strings.Fields(line)[4] // 10.77.0.100:53 or [fe80::1]%eth0:53
		count[strings.NewReplacer("[", "", "]", "").Replace(strings.TrimSuffix(local, ":53"))]++
	}
	var all []string
	for addr, sockets := range count {
		if sockets != socketsEach() {
			addr += fmt.Sprintf(" (%d sockets)", sockets)
		}
		all = append(all, addr)
	}
	slices.Sort(all)
	return all
}

// sockets returns the kernel's numbers of the sockets at an address, UDP and TCP.
func (m *listenAll) sockets(addr string) []string {
	m.t.Helper()
	var all []string
	for _, word := range strings.Fields(m.l.Run("ss", "-Hlnute", "src", addr)) {
		if strings.HasPrefix(word, "ino:") {
			all = append(all, word)
		}
	}
	if len(all) != socketsEach() {
		m.t.Errorf("the sockets at %s are %v, want %d", addr, all, socketsEach())
	}
	return all
}
