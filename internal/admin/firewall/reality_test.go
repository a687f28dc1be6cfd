package firewall

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/internal/test/lab"
)

const (
	nodeIP4, podIP4 = "10.128.0.1", "10.128.0.41"
	nodeIP6, podIP6 = "fd77:128::1", "fd77:128::41"
)

// realRows are rulesets, each loaded by its own program. want holds the verdicts for UDP and TCP
// over IPv4 and then over IPv6: a for accepted, d for dropped, ? for unknown.
var realRows = []struct {
	name, want string
	nft        string   // rules of `chain input` in `table inet filter`, whose policy is drop
	file       string   // or a complete file for nft(8)
	iptables   []string // or arguments for iptables
}{
	{name: "no rules", want: "aaaa", file: ""},
	{name: "policy drop", want: "dddd", nft: ""},
	{name: "accepts port 53 over UDP", want: "adad", nft: "udp dport 53 accept"},
	{name: "accepts both", want: "aaaa", nft: "meta l4proto { tcp, udp } th dport 53 accept"},
	{name: "accepts other ports", want: "dddd", nft: "tcp dport { 22, 80 } accept\nudp dport 5353 accept"},
	{name: "accepts a set of ports", want: "aaaa", nft: "th dport { 22, 53, 67 } accept"},
	{name: "accepts a range of ports", want: "dada", nft: "tcp dport 50-60 accept\nudp dport 60-70 accept"},
	{name: "accepts a set of ranges", want: "adad", nft: "udp dport { 10-20, 50-60, 61-70 } accept\ntcp dport { 10-20, 54-60 } accept"},
	{name: "accepts all but a range", want: "dddd", nft: "tcp dport != 50-60 accept"},
	{name: "accepts established conversations", want: "dddd", nft: "ct state { established, related } accept\nct state invalid drop\nct status dnat accept\niif lo accept"},
	{name: "accepts new conversations", want: "aaaa", nft: "ct state new,untracked accept"},
	{name: "a map of states", want: "adad", nft: "ct state vmap { established : accept, related : accept, invalid : drop }\nudp dport 53 accept"},
	{name: "accepts the interface by name", want: "aaaa", nft: `iifname "cni0" accept`},
	{name: "accepts interfaces by a prefix", want: "aaaa", nft: `iifname "cn*" accept`},
	{name: "accepts other interfaces", want: "dddd", nft: `iifname { "eth0", "docker*" } accept`},
	{name: "accepts the interface by number", want: "aaaa", nft: "iif cni0 accept"},
	{name: "accepts the pods' network", want: "aadd", nft: "ip saddr 10.128.0.0/14 accept"},
	{name: "accepts a set of networks", want: "aaaa", nft: "ip saddr { 10.0.0.0/8, 192.168.0.0/16 } accept\nip6 saddr { fc00::/7 } accept"},
	{name: "accepts networks around it", want: "dddd", nft: "ip saddr { 10.0.0.0/9, 10.132.0.0/14, 192.168.0.0/16 } accept"},
	{name: "accepts packets that are not from a network", want: "ddaa", nft: "ip saddr != 10.0.0.0/8 accept\nip6 saddr != 2001:db8::/32 accept"},
	{name: "accepts the node's address", want: "addd", nft: "ip daddr 10.128.0.1 udp dport 53 accept"},
	{name: "accepts packets for this host", want: "aaaa", nft: "fib daddr type local accept"},
	{name: "accepts a family", want: "ddaa", nft: "meta nfproto ipv6 accept"},
	{name: "accepts interface and port together", want: "adad", nft: `iifname . udp dport { "cni0" . 53, "eth0" . 67 } accept`},
	{name: "accepts interface and a range of ports together", want: "????", nft: `iifname . th dport { "cni0" . 50-60 } accept`},
	{name: "a map with a default", want: "dddd", nft: `iifname vmap { "lo" : accept, * : drop }` + "\naccept"},
	{name: "accepts a mark", want: "????", nft: "meta mark 0x1 accept"},
	{name: "accepts at a rate", want: "????", nft: "limit rate 100/second accept"},
	{name: "accepts at a rate on another interface", want: "dddd", nft: `iifname "eth0" limit rate 100/second accept`},
	{name: "rejects other ports, as node-dns-intercept does", want: "aaaa", nft: "ip daddr 10.128.0.1 udp dport != 53 meta iiftype != loopback ct state new reject\nip daddr 10.128.0.1 tcp dport != 53 meta iiftype != loopback ct state new reject\naccept"},
	{name: "rejects above a rate", want: "aaaa", nft: "limit rate over 100/second reject\naccept"},
	{name: "drops a mark", want: "aaaa", nft: "meta mark and 0x8000 == 0x8000 drop\naccept"},
	{name: "accepts a large packet", want: "????", nft: "meta length > 1000 accept"},
	{name: "accepts a source port", want: "??dd", nft: "ip version 4 th sport 53 accept"},
	{name: "accepts an unknown expression", want: "????", nft: "socket transparent 1 accept"},
	{name: "logs and counts", want: "dddd", nft: `log prefix "x: " counter` + "\nreject with icmpx admin-prohibited"},
	{
		name: "jumps", want: "adad", file: `table inet filter {
			chain zones { iifname "cni0" goto pods; udp dport 53 drop; }
			chain pods { jump early; udp dport 53 accept; }
			chain early { tcp dport 53 return; udp dport 54 accept; }
			chain input { type filter hook input priority 0; policy accept; jump zones; reject; }
		}`,
	},
	{
		name: "jumps to a chain that decides nothing", want: "aaaa", file: `table inet filter {
			chain nothing { counter; }
			chain input { type filter hook input priority 0; policy accept; goto nothing; drop; }
		}`,
	},
	{
		name: "may go to a chain that decides nothing", want: "????", file: `table inet filter {
			chain nothing { counter; }
			chain input { type filter hook input priority 0; policy accept; meta mark 7 goto nothing; drop; }
		}`,
	},
	{
		name: "may return", want: "????", file: `table inet filter {
			chain some { meta mark 7 return; drop; }
			chain input { type filter hook input priority 0; policy accept; jump some; }
		}`,
	},
	{
		name: "a map of interfaces and chains", want: "adad", file: `table inet filter {
			chain pods { udp dport 53 accept; }
			chain outside { accept; }
			chain input { type filter hook input priority 0; policy drop; iifname vmap { "cni0" : jump pods, "eth0" : jump outside }; }
		}`,
	},
	{
		name: "a named set that the rules change", want: "????", file: `table inet filter {
			set seen { type ipv4_addr; flags dynamic; timeout 1m; }
			chain input { type filter hook input priority 0; policy drop; ip saddr @seen accept; meta mark 7 accept; }
		}`,
	},
	{
		name: "a named set", want: "aadd", file: `table inet filter {
			set pods { type ipv4_addr; flags interval; elements = { 10.128.0.0/14 }; }
			chain input { type filter hook input priority 0; policy drop; ip saddr @pods accept; }
		}`,
	},
	{
		name: "a second table drops", want: "adad", file: `table ip filter { chain input { type filter hook input priority 0; policy accept; accept; }; }
			table inet late { chain input { type filter hook input priority 10; policy accept; tcp dport 53 drop; }; }`,
	},
	{name: "a dormant table", want: "aaaa", file: "table inet filter { flags dormant; chain input { type filter hook input priority 0; policy drop; }; }"},
	{name: "forwarding drops", want: "aaaa", file: "table inet filter { chain forward { type filter hook forward priority 0; policy drop; }; }"},
	{name: "drops all of IPv6", want: "aadd", file: "table ip6 filter { chain input { type filter hook input priority 0; policy drop; }; }"},
	{
		// Rules installed by iptables-services.
		name: "iptables of RHEL", want: "ddaa", iptables: []string{
			"-A INPUT -m state --state RELATED,ESTABLISHED -j ACCEPT", "-A INPUT -p icmp -j ACCEPT", "-A INPUT -i lo -j ACCEPT",
			"-A INPUT -p tcp -m state --state NEW -m tcp --dport 22 -j ACCEPT", "-A INPUT -j REJECT --reject-with icmp-host-prohibited",
		},
	},
	{
		// Rules added by openshift-ansible (roles/lib_os_firewall).
		name: "iptables of OpenShift 3", want: "aaaa", iptables: []string{
			"-A INPUT -m state --state RELATED,ESTABLISHED -j ACCEPT", "-N OS_FIREWALL_ALLOW", "-A INPUT -j OS_FIREWALL_ALLOW",
			"-A INPUT -j REJECT --reject-with icmp-host-prohibited",
			"-A OS_FIREWALL_ALLOW -p tcp -m state --state NEW -m tcp --dport 53 -j ACCEPT",
			"-A OS_FIREWALL_ALLOW -p udp -m state --state NEW -m udp --dport 53 -j ACCEPT",
		},
	},
	{
		name: "iptables that accepts several ports", want: "adaa", iptables: []string{
			"-P INPUT DROP", "-A INPUT -p udp -i cni+ -m multiport --dports 22,50:60 -j ACCEPT", "-A INPUT -p tcp -m multiport ! --dports 22,53 -j ACCEPT",
		},
	},
	{
		name: "iptables that accepts packets for this host", want: "aaaa", iptables: []string{
			"-P INPUT DROP", "-A INPUT -m addrtype --dst-type LOCAL -m comment --comment x -j ACCEPT",
		},
	},
	{name: "iptables that accepts packets not for this host", want: "ddaa", iptables: []string{"-P INPUT DROP", "-A INPUT -m addrtype ! --dst-type LOCAL -j ACCEPT"}},
	{name: "iptables that accepts SYN", want: "daaa", iptables: []string{"-P INPUT DROP", "-A INPUT -p tcp --syn -j ACCEPT", "-A INPUT -p udp --sport 53 -m udp --dport 54 -j ACCEPT"}},
	{name: "iptables that accepts an option", want: "d?aa", iptables: []string{"-P INPUT DROP", "-A INPUT -p tcp --tcp-option 8 -j ACCEPT"}},
	{name: "iptables that accepts by length", want: "??aa", iptables: []string{"-P INPUT DROP", "-A INPUT -m length --length 1000: -j ACCEPT"}},
	{name: "iptables that marks", want: "??aa", iptables: []string{"-A INPUT -j MARK --set-mark 1", "-A INPUT -m mark --mark 1 -j ACCEPT", "-A INPUT -j DROP"}},
	{name: "iptables that drops a mark", want: "aaaa", iptables: []string{"-A INPUT -m mark --mark 0x8000/0x8000 -j DROP", "-A INPUT -j LOG"}},
	{name: "iptables that queues to a program", want: "??aa", iptables: []string{"-A INPUT -j NFQUEUE", "-A INPUT -j ACCEPT"}},
}

// TestReality proves for each ruleset that Decide agrees with what the kernel does with packets
// from a pod.
func TestReality(t *testing.T) {
	lab.Need(t, "nft", "iptables")
	w := newWorld(t)
	for _, row := range realRows {
		t.Run(row.name, func(t *testing.T) {
			w.l.Run("nft", "flush", "ruleset")
			switch {
			case row.iptables != nil:
				for _, words := range row.iptables {
					if out, err := w.l.Try(append([]string{"iptables"}, strings.Fields(words)...)...); err != nil {
						t.Fatalf("iptables %s: %v\n%s", words, err, out)
					}
				}
			case row.file != "":
				w.load(t, row.file)
			case row.want != "aaaa" || row.nft != "":
				w.load(t, "table inet filter { chain input { type filter hook input priority 0; policy drop;\n"+
					"meta l4proto ipv6-icmp accept\n"+row.nft+"\n}\n}")
			}
			rules, err := readRuleset(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			for _, p := range w.packets() {
				d := rules.Decide(p)
				got += map[Verdict]string{Accept: "a", Drop: "d", Unknown: "?"}[d.Verdict]
				if passed := w.passes(t, p); d.Verdict == Accept && !passed || d.Verdict == Drop && passed {
					t.Errorf("%+v passes: %v, but Decide returned %+v\n%s", p, passed, d, w.l.Run("nft", "list", "ruleset"))
				}
				if (d.Verdict == Accept) != (d.Chain == Chain{}) || (d.Verdict == Unknown) != (d.Why != "") {
					t.Errorf("got an incomplete decision: %+v", d)
				}
			}
			if got != row.want {
				t.Errorf("got %s, want %s\n%s", got, row.want, w.l.Run("nft", "list", "ruleset"))
			}
		})
	}
}

// world is a node with a pod behind cni0.
type world struct {
	l     *lab.Lab
	pod   *lab.Namespace
	index int
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{l: lab.New(t)}
	w.pod = w.l.Namespace("pod")
	w.l.Veth("cni0", w.pod, "eth0")
	w.l.Addr("cni0", nodeIP4+"/24", nodeIP6+"/64")
	for _, prefix := range []string{podIP4 + "/24", podIP6 + "/64"} {
		w.pod.Run("ip", "addr", "add", prefix, "dev", "eth0")
	}
	link, err := net.InterfaceByName("cni0")
	if err != nil {
		t.Fatal(err)
	}
	w.index = link.Index
	// The neighbor entries are permanent, so that no rule can prevent their discovery.
	own := strings.TrimSpace(w.l.Run("cat", "/sys/class/net/cni0/address"))
	for _, addr := range []string{nodeIP4, nodeIP6} {
		w.pod.Run("ip", "neigh", "replace", addr, "lladdr", own, "dev", "eth0", "nud", "permanent")
	}
	return w
}

func (w *world) load(t *testing.T, text string) {
	t.Helper()
	w.l.WriteFile("/run/rules.nft", text)
	if out, err := w.l.Try("nft", "-f", "/run/rules.nft"); err != nil {
		t.Fatalf("%v\n%.2000s\n%.2000s", err, text, out)
	}
}

func (w *world) packets() []Packet {
	var all []Packet
	for _, addrs := range [][2]string{{podIP4, nodeIP4}, {podIP6, nodeIP6}} {
		for _, protocol := range []uint8{unix.IPPROTO_UDP, unix.IPPROTO_TCP} {
			all = append(all, Packet{
				Interface: "cni0", Index: w.index, Port: 53, Protocol: protocol,
				Source: netip.MustParseAddr(addrs[0]), Destination: netip.MustParseAddr(addrs[1]),
			})
		}
	}
	return all
}

// observer counts packets before and after all other chains. A packet passes all chains of a hook
// at once. If a later packet has been counted first, the earlier one was either counted last or
// dropped.
const observer = `table inet observer
delete table inet observer
table inet observer {
	counter first { }
	counter marker { }
	counter last { }
	chain first { type filter hook input priority -1000; udp dport 9 counter name marker; th dport 53 counter name first; }
	chain last { type filter hook input priority 1000; th dport 53 counter name last; }
}`

// passes sends a packet and reports whether the input hook accepts it.
func (w *world) passes(t *testing.T, p Packet) bool {
	t.Helper()
	w.load(t, observer)
	send := func(protocol uint8, port uint16) {
		var sent error
		if err := errors.Join(w.pod.Inside(func() { sent = begin(protocol, netip.AddrPortFrom(p.Destination, port)) }), sent); err != nil {
			t.Fatal(err)
		}
	}
	seen := func(counter string) bool {
		return !strings.Contains(w.l.Run("nft", "list", "counter", "inet", "observer", counter), "packets 0 ")
	}
	send(p.Protocol, p.Port)
	w.l.Await("the packet", func() bool { return seen("first") })
	if seen("last") {
		return true
	}
	send(unix.IPPROTO_UDP, 9)
	w.l.Await("the packet behind it", func() bool { return seen("marker") })
	return seen("last")
}

// begin sends a datagram or the first segment of a connection, without waiting.
func begin(protocol uint8, to netip.AddrPort) error {
	domain, kind := unix.AF_INET6, unix.SOCK_DGRAM
	var at unix.Sockaddr = &unix.SockaddrInet6{Port: int(to.Port()), Addr: to.Addr().As16()}
	if to.Addr().Is4() {
		domain, at = unix.AF_INET, &unix.SockaddrInet4{Port: int(to.Port()), Addr: to.Addr().As4()}
	}
	if protocol == unix.IPPROTO_TCP {
		kind = unix.SOCK_STREAM
	}
	fd, err := unix.Socket(domain, kind|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if protocol == unix.IPPROTO_UDP {
		return unix.Sendto(fd, []byte("x"), 0, at)
	}
	if err := unix.Connect(fd, at); err != nil && !errors.Is(err, unix.EINPROGRESS) {
		return err
	}
	return nil
}

// TestReadDenied proves that missing rights are reported as a permission error.
func TestReadDenied(t *testing.T) {
	lab.Need(t, "nft")
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked, so that the thread ends without its capabilities
		header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var none [2]unix.CapUserData
		if err := unix.Capset(&header, &none[0]); err != nil {
			done <- err
			return
		}
		_, err := readRuleset(t.Context())
		done <- err
	}()
	if err := <-done; !errors.Is(err, os.ErrPermission) {
		t.Errorf("got %v", err)
	}
}

// TestReadLarge proves that a set with more than maxElements elements is treated as partly unknown.
func TestReadLarge(t *testing.T) {
	lab.Need(t, "nft")
	w := newWorld(t)
	var many strings.Builder
	for i := range maxElements + 10 {
		fmt.Fprintf(&many, "172.%d.%d.%d, ", 16+i>>16, i>>8&255, i&255)
	}
	w.load(t, "table inet filter { set many { type ipv4_addr; elements = { "+many.String()+" }; }\n"+
		"chain input { type filter hook input priority 0; policy drop; ip saddr @many accept; }; }")
	rules, err := readRuleset(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if d := rules.Decide(w.packets()[0]); d.Verdict != Unknown || d.Why != "chain input, rule 1: set many" {
		t.Errorf("got %+v", d)
	}
}
