package netns

import (
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/internal/test/lab"
)

// The LAN: a router that offers addresses, and nameservers that each return their own identity.
const (
	router  = "10.77.0.1"
	nodeIP  = "10.77.0.100" // the only address that DHCP offers
	nodeIP6 = "fd77::100"
	ns1     = "10.77.0.53"
	ns2     = "10.77.0.54"
	ns6     = "fd77::53"
)

// installedHook is the path at which NetworkManager runs the hook.
const installedHook = "/usr/lib/NetworkManager/dispatcher.d/99-origin-dns"

// node is a machine on a LAN with both programs installed.
type node struct {
	t       testing.TB
	l       *lab.Lab
	lan     *lab.Namespace
	dhcp    *lab.DHCPServer // nil if the test has its own server
	bus     *lab.Process
	nm      *lab.Process
	daemon  *lab.Process
	program string   // origin-dns-dispatcher
	unit    pathUnit // runs requested by the daemon
	main    []string // lines in [main] of NetworkManager.conf

	nameservers map[string]*lab.Process // on the LAN, by address
}

// option changes the setup of a node; see newNode.
type option func(*setup)

type setup struct {
	dhcp       lab.DHCPConfig
	main       []string
	resolvConf *string
	raw        map[byte][]byte // options of the test's own DHCP server; nil means dnsmasq
	bare       bool            // neither program is installed
	files      []func(*lab.Lab)
	byHand     func(*lab.Lab) // without NetworkManager; creates the files of whatever replaces it
}

// byHand makes a machine without NetworkManager, bus and DHCP. eth0 already has its address and
// route.
func byHand(files func(*lab.Lab)) option {
	return func(s *setup) { s.byHand = files }
}

// bare makes a machine without node-dns installed.
func bare() option {
	return func(s *setup) { s.bare = true }
}

// offering sets the nameservers that DHCP offers.
func offering(nameservers ...string) option {
	return func(s *setup) { s.dhcp.Nameservers = nameservers }
}

// withDHCP changes other settings of the DHCP server.
func withDHCP(change func(*lab.DHCPConfig)) option {
	return func(s *setup) { change(&s.dhcp) }
}

// dnsNone makes a node like openshift-ansible's since 2020: NetworkManager leaves resolv.conf
// alone.
func dnsNone() option {
	return func(s *setup) { s.main = append(s.main, "dns=none") }
}

// withResolvConf sets the initial /etc/resolv.conf.
func withResolvConf(text string) option {
	return func(s *setup) { s.resolvConf = &text }
}

// newNode starts everything except a connection. Without options DHCP offers nodeIP, the router,
// ns1 and example.com, there is no resolv.conf, and NetworkManager writes it (rc-manager=file),
// even over our file.
func newNode(t testing.TB, options ...option) *node {
	t.Helper()
	s := setup{main: []string{"rc-manager=file"}, dhcp: lab.DHCPConfig{
		Interface: "lan0", Range: nodeIP + "," + nodeIP + ",255.255.255.0", Router: router, Domain: "example.com", Nameservers: []string{ns1},
	}}
	for _, o := range options {
		o(&s)
	}
	lab.Need(t, "NetworkManager", "nmcli", "dnsmasq", "dbus-daemon")
	l := lab.New(t)
	n := &node{
		t: t, l: l, main: s.main, program: lab.Binary(t, "origin-dns-dispatcher"), nameservers: map[string]*lab.Process{},
	}
	for _, dir := range []string{"/etc/dnsmasq.d", "/etc/origin/node"} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if s.resolvConf != nil {
		l.WriteFile(resolvConf, *s.resolvConf)
	}
	for _, write := range s.files {
		write(l)
	}
	n.lan = l.Namespace("lan")
	l.Veth("eth0", n.lan, "lan0")
	n.serveLAN("lan0", router, ns1, ns2, ns6)
	if s.byHand != nil {
		l.Addr("eth0", nodeIP+"/24")
		l.Route("default via " + router)
		s.byHand(l)
	} else {
		n.startDHCP(s)
		n.bus = l.Bus()
	}
	if !s.bare {
		l.Hook(filepath.Base(installedHook), n.program)
		n.daemon = startDaemon(t, l)
		n.unit.start(n)
	}
	if s.byHand == nil {
		n.nm = l.NetworkManager(n.main...)
	}
	return n
}

func (n *node) startDHCP(s setup) {
	n.t.Helper()
	if s.raw == nil {
		n.dhcp = n.lan.DHCP(s.dhcp)
		return
	}
	lab.RawDHCP{Link: "lan0", Server: netip.MustParseAddr(router), Client: netip.MustParseAddr(nodeIP), Options: s.raw}.Serve(n.lan)
}

// serveLAN adds addresses to the LAN's end of a link and starts a nameserver on each of them but
// the first.
func (n *node) serveLAN(link string, addrs ...string) {
	n.t.Helper()
	for i, addr := range addrs {
		prefix := addr + "/24"
		if isIPv6(addr) {
			prefix = addr + "/64"
		}
		n.lan.Run("ip", "addr", "add", prefix, "dev", link)
		if i > 0 {
			n.nameservers[addr] = n.lan.Nameserver(addr)
		}
	}
}

// nobody is the user that runs the daemon in these tests.
const nobody = 65534

// startDaemon starts `node-dns serve` with the privileges of its unit.
func startDaemon(t testing.TB, l *lab.Lab) *lab.Process {
	t.Helper()
	const runtimeDirectory = "/run/node-dns"
	if err := os.MkdirAll(runtimeDirectory, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(runtimeDirectory, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	return l.Start(lab.Command{
		Argv: []string{lab.Binary(t, "node-dns"), "serve"},
		User: nobody, Caps: []uintptr{unix.CAP_NET_BIND_SERVICE},
	})
}

// connect adds a connection for a link and waits until it is up.
func (n *node) connect(link string, settings ...string) {
	n.t.Helper()
	n.l.Nmcli(append([]string{"connection", "add", "type", "ethernet", "ifname", link, "con-name", link, "autoconnect", "no"}, settings...)...)
	n.l.Nmcli("connection", "up", link)
}
