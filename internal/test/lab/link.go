package lab

import (
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Veth adds a link to the machine whose other end is peerName in the namespace. Both are up.
func (l *Lab) Veth(name string, peer *Namespace, peerName string) {
	l.t.Helper()
	l.Run("ip", "link", "add", name, "type", "veth", "peer", "name", peerName, "netns", peer.Name)
	peer.Run("ip", "link", "set", peerName, "up")
	l.Run("ip", "link", "set", name, "up")
}

// Tun adds a tunnel device, up and with carrier. The test holds its other end open and reads
// nothing from it.
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

// Addr adds addresses with their prefix lengths to a link.
func (l *Lab) Addr(link string, prefixes ...string) {
	l.t.Helper()
	for _, p := range prefixes {
		l.Run("ip", "addr", "add", p, "dev", link)
	}
}

// Route adds an IPv4 route in the syntax of ip-route(8), or an IPv6 one with a leading "-6". The
// family is always passed on, because `ip` treats "default via inet6 …" as an IPv6 route.
func (l *Lab) Route(words string) {
	l.t.Helper()
	family, f := "-4", strings.Fields(words)
	if f[0] == "-6" {
		family, f = f[0], f[1:]
	}
	l.Run(append([]string{"ip", family, "route", "add"}, f...)...)
}

// Bridge adds a bridge to the namespace, up, with addresses and their prefix lengths.
func (n *Namespace) Bridge(name string, prefixes ...string) {
	n.l.t.Helper()
	n.Run("ip", "link", "add", name, "type", "bridge")
	n.Run("ip", "link", "set", name, "up")
	for _, p := range prefixes {
		n.Run("ip", "addr", "add", p, "dev", name)
	}
}
