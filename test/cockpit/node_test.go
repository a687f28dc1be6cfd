package cockpit

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/node-dns/node-dns/internal/test/dnstest"
	"github.com/node-dns/node-dns/internal/test/lab"
)

// Addresses in the LAN.
const (
	router = "10.77.0.1"
	nodeIP = "10.77.0.100" // the only one that DHCP offers
	ns1    = "10.77.0.53"
	ns2    = "10.77.0.54"
)

// records are the records of both nameservers. Some contain markup or terminal escapes.
const records = `
www.site.example. 300 A 192.0.2.80
shop.site.example. 300 CNAME www.site.example.
evil.site.example. 300 TXT "<img src=x onerror=alert(1)>" "\027[2J\027]0;title\007"
<img/src=x/onerror=alert\(1\)>.site.example. 300 A 192.0.2.66
`

// hostileName is a name of records.
const hostileName = "<img/src=x/onerror=alert(1)>.site.example"

// node is a booted machine with node-dns, the page and cockpit-ws.
type node struct {
	*lab.Container
	t   *testing.T
	l   *lab.Lab
	lan *lab.Namespace

	first, second *dnstest.Server // at ns1 and ns2
	asked         int             // names of askWhile
}

// newNode boots a node with a ready node-dns.
func newNode(t *testing.T) *node {
	t.Helper()
	lab.Need(t, "NetworkManager", "dnsmasq", "dig", "make", "chromium", "cockpit-bridge")
	l := lab.New(t)
	n := &node{Container: l.Container("node"), t: t, l: l, lan: l.Namespace("lan")}
	n.lan.Bridge("lan0", router+"/24", ns1+"/24", ns2+"/24")
	n.first, n.second = n.startNameserver(ns1), n.startNameserver(ns2)
	n.lan.DHCP(lab.DHCPConfig{
		Interface: "lan0", Range: nodeIP + "," + nodeIP + ",255.255.255.0", Router: router, Domain: "site.example", Nameservers: []string{ns1, ns2},
	})
	n.Wire("eth0", n.lan, "lan0")
	n.WriteFile("/etc/NetworkManager/system-connections/eth0.nmconnection",
		"[connection]\nid=eth0\ntype=ethernet\ninterface-name=eth0\n\n[ipv4]\nmethod=auto\n\n[ipv6]\nmethod=disabled\n", 0o600)
	n.Enable("NetworkManager.service")
	n.install()
	n.Boot()
	n.Await("a lease", func() bool { return strings.Contains(n.ReadFile("/etc/resolv.conf"), ns1) })
	n.Run("systemctl", "enable", "--now", "node-dns.service")
	n.Await("resolv.conf to point at the node", func() bool { return strings.Contains(n.ReadFile("/etc/resolv.conf"), "\nnameserver "+nodeIP+"\n") })
	n.Await("node-dns to be ready", func() bool {
		out, err := n.Try("node-dns", "status", "--brief")
		return err == nil && strings.HasPrefix(out, "ready")
	})
	return n
}

// startNameserver starts a nameserver on the LAN.
func (n *node) startNameserver(addr string) (server *dnstest.Server) {
	n.t.Helper()
	var err error
	if inside := n.lan.Inside(func() {
		server, err = dnstest.StartAt(netip.AddrPortFrom(netip.MustParseAddr(addr), 53), records)
	}); inside != nil {
		n.t.Fatal(inside)
	}
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(server.Close)
	return server
}

// bringUp starts nameservers that were down.
func (n *node) bringUp(servers ...*dnstest.Server) {
	n.t.Helper()
	for _, server := range servers {
		var err error
		if inside := n.lan.Inside(func() { err = server.Up() }); inside != nil || err != nil {
			n.t.Fatalf("a nameserver stays down: %v, %v", err, inside)
		}
	}
}

// install installs node-dns as its packages do. The machine is off.
func (n *node) install() {
	n.t.Helper()
	const program = "/usr/libexec/node-dns/origin-dns-dispatcher"
	n.CopyFile("/usr/sbin/node-dns", lab.Binary(n.t, "node-dns"), 0o755)
	n.CopyFile(program, lab.Binary(n.t, "origin-dns-dispatcher"), 0o755)
	if err := os.Symlink(program, n.Path("/usr/sbin/origin-dns-dispatcher")); err != nil {
		n.t.Fatal(err)
	}
	n.CopyFile("/usr/lib/NetworkManager/dispatcher.d/99-origin-dns", filepath.Join(root, "packaging/networkmanager/99-origin-dns"), 0o755)
	for _, unit := range []string{"node-dns.service", "node-dns-apply.service", "node-dns-apply.path", "node-dns@.socket"} {
		n.CopyFile("/usr/lib/systemd/system/"+unit, filepath.Join(root, "systemd", unit), 0o644)
	}
	n.CopyFile("/usr/share/dbus-1/system.d/node-dns.conf", filepath.Join(root, "packaging/dbus/node-dns.conf"), 0o644)
	n.CopyFile("/usr/lib/sysusers.d/node-dns.conf", filepath.Join(root, "packaging/node-dns.sysusers"), 0o644)
	n.l.Run("systemd-sysusers", "--root="+n.Path("/"), n.Path("/usr/lib/sysusers.d/node-dns.conf"))
	readInputs(n.t, "cockpit")
	n.l.Run("make", "-C", root, "install-cockpit", "DESTDIR="+n.Path(""))
}

// startCockpit starts cockpit-ws on a port of the node, with a session of this user, and returns
// its address.
func (n *node) startCockpit(user, port string) string {
	n.t.Helper()
	program := "/usr/lib/cockpit/cockpit-ws" // Debian's
	if _, err := os.Stat(n.Path(program)); err != nil {
		program = "/usr/libexec/cockpit-ws" // RHEL's
	}
	if _, err := os.Stat(n.Path(program)); err != nil {
		lab.Skip(n.t, "needs cockpit-ws: %v", err)
	}
	n.Start("runuser", "-u", user, "--", program, "--no-tls", "--address", nodeIP, "--port", port, "--local-session", "cockpit-bridge")
	address := "http://" + nodeIP + ":" + port
	n.Await("cockpit-ws", func() bool {
		_, err := n.Try("bash", "-c", "exec 3<>/dev/tcp/"+nodeIP+"/"+port)
		return err == nil
	})
	return address
}
