package lab

import (
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// resetNetwork leaves nothing but loopback, and the kernel's own routing rules.
func resetNetwork() error {
	links, err := netlink.LinkList()
	if err != nil {
		return fmt.Errorf("listing links: %w", err)
	}
	for _, link := range links {
		if link.Attrs().Name == "lo" {
			err = resetLoopback(link)
		} else {
			err = netlink.LinkDel(link)
		}
		if err != nil && !isGone(link) {
			return fmt.Errorf("clearing %s: %w", link.Attrs().Name, err)
		}
	}
	if err := resetRules(); err != nil {
		return err
	}
	// Duplicate address detection takes a second on a link where nobody can have the address.
	for _, which := range []string{"all", "default"} {
		if err := os.WriteFile("/proc/sys/net/ipv6/conf/"+which+"/accept_dad", []byte("0"), 0); err != nil {
			return fmt.Errorf("turning duplicate address detection off: %w", err)
		}
	}
	return nil
}

// isGone reports whether a link vanished while it was looked at: the end of a veth goes with its peer.
func isGone(link netlink.Link) bool {
	_, err := netlink.LinkByIndex(link.Attrs().Index)
	return err != nil
}

func resetLoopback(lo netlink.Link) error {
	addrs, err := netlink.AddrList(lo, netlink.FAMILY_ALL)
	if err != nil {
		return err
	}
	for _, a := range addrs {
		if !a.IP.IsLoopback() || a.IP.To4() != nil && a.IP.String() != "127.0.0.1" {
			if err := netlink.AddrDel(lo, &a); err != nil {
				return err
			}
		}
	}
	return netlink.LinkSetUp(lo)
}

// resetRules drops what a test added to the rules that every network namespace starts with: local, main and default.
func resetRules() error {
	for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
		rules, err := netlink.RuleList(family)
		if err != nil {
			return fmt.Errorf("listing routing rules: %w", err)
		}
		for _, r := range rules {
			if r.Table == unix.RT_TABLE_LOCAL || r.Priority == 32766 || r.Priority == 32767 {
				continue
			}
			r.Family = family
			if err := netlink.RuleDel(&r); err != nil {
				return fmt.Errorf("deleting routing rule %v: %w", r, err)
			}
		}
	}
	return nil
}

// Namespace is a second machine's network: the other end of a wire.
type Namespace struct {
	Name string
	l    *Lab
}

// Namespace adds a network namespace (ip-netns(8)) with loopback up.
func (l *Lab) Namespace(name string) *Namespace {
	l.t.Helper()
	l.Run("ip", "netns", "add", name)
	n := &Namespace{Name: name, l: l}
	n.Run("ip", "link", "set", "lo", "up")
	n.Run("sh", "-c", "for f in all default; do echo 0 >/proc/sys/net/ipv6/conf/$f/accept_dad; done")
	return n
}

// Run runs a program in the namespace, and returns what it printed.
func (n *Namespace) Run(argv ...string) string {
	n.l.t.Helper()
	return n.l.Run(n.argv(argv)...)
}

// Start starts a program in the namespace.
func (n *Namespace) Start(argv ...string) *Process {
	n.l.t.Helper()
	return n.l.Start(Command{Argv: n.argv(argv)})
}

func (n *Namespace) argv(argv []string) []string {
	return append([]string{"ip", "netns", "exec", n.Name}, argv...)
}

// Veth adds a link of this name to the machine, up, whose other end is in the namespace under peerName, up too.
func (l *Lab) Veth(name string, peer *Namespace, peerName string) {
	l.t.Helper()
	l.Run("ip", "link", "add", name, "type", "veth", "peer", "name", peerName, "netns", peer.Name)
	peer.Run("ip", "link", "set", peerName, "up")
	l.Run("ip", "link", "set", name, "up")
}

// Tun adds a tunnel device of this name, up and with carrier: the test holds its other end, and reads nothing.
func (l *Lab) Tun(name string) {
	l.t.Helper()
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		l.t.Fatalf("opening /dev/net/tun: %v", err)
	}
	l.files = append(l.files, os.NewFile(uintptr(fd), name))
	req, err := unix.NewIfreq(name)
	if err != nil {
		l.t.Fatalf("naming a tunnel %q: %v", name, err)
	}
	req.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, req); err != nil {
		l.t.Fatalf("making tunnel %s: %v", name, err)
	}
	l.Run("ip", "link", "set", name, "up")
}

// Addr gives a link addresses, each with its prefix length.
func (l *Lab) Addr(link string, prefixes ...string) {
	l.t.Helper()
	for _, p := range prefixes {
		l.Run("ip", "addr", "add", p, "dev", link)
	}
}

// Route adds an IPv4 route in the words of ip-route(8), or with a leading "-6" an IPv6 one. The family is always said, because `ip`
// itself takes "default via inet6 …" for an IPv6 route.
func (l *Lab) Route(words string) {
	l.t.Helper()
	family, f := "-4", strings.Fields(words)
	if f[0] == "-6" {
		family, f = f[0], f[1:]
	}
	l.Run(append([]string{"ip", family, "route", "add"}, f...)...)
}

// Run runs a program to its end, and returns what it printed.
func (l *Lab) Run(argv ...string) string {
	l.t.Helper()
	out, err := l.Try(argv...)
	if err != nil {
		l.t.Fatalf("%s: %v\n%s", strings.Join(argv, " "), err, out)
	}
	return out
}

// Try is Run for what may fail.
func (l *Lab) Try(argv ...string) (string, error) {
	out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput()
	return string(out), err
}
