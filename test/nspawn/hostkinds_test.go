package nspawn

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/node-dns/node-dns/internal/test/lab"
)

// Nameservers of the LAN besides those that DHCP offers.
const (
	adminNS = "10.77.0.56"
	vpnNS   = "10.77.0.57"
)

// fileForm is the kind of file that /etc/resolv.conf is.
type fileForm string

const (
	regular fileForm = "file"
	linked  fileForm = "link"
	mounted fileForm = "bind mount" // of another file
)

// hostKind is an owner of a host's resolv.conf.
type hostKind struct {
	name     string
	forms    []fileForm
	target   string                          // of a link that is not an admin's
	text     string                          // an admin's resolv.conf; "" if a program writes it
	prepare  func(n *node)                   // before the machine boots
	complete func(n *node, form fileForm)    // after the boot
	rewrite  func(n *node)                   // makes the owner write resolv.conf again; nil if only an admin writes it
	renew    func(n *node, servers []string) // gets a new lease; nil without DHCP

	manages      bool // NetworkManager manages eth0
	asksDHCP     bool // node-dns uses the nameservers from DHCP instead of those in the file: docs/explanation/precedence.md
	migrates     bool // there is something to migrate; otherwise `migrate --apply` does nothing
	kubelet      bool // the migration is that of a kubelet's resolvConf
	onlyMigrates bool // node-dns cannot start without a migration
	shuffles     bool // the search list has no fixed order: systemd-resolved keeps links in a hash table with a random seed
	keepsLink    bool // a file in place of its link counts as another tool's, and the link comes back: docs/howto/coexistence.md
}

// handwritten is an admin's resolv.conf. The options also distinguish it from a file that a program
// writes.
const handwritten = "# the site's\nsearch admin.example\nnameserver " + adminNS + "\noptions timeout:2\n"

// adminsFile is what an admin's link leads to.
const adminsFile = "/etc/resolv.mine"

var anyForm = []fileForm{regular, linked, mounted}

var hostKinds = []hostKind{
	{
		name: "NetworkManager", manages: true, migrates: true, kubelet: true, forms: anyForm, target: "/run/NetworkManager/resolv.conf",
		rewrite: (*node).rewriteResolvConf, renew: (*node).renewLease,
		prepare: func(n *node) {
			n.WriteFile(kubeletConfig, "kind: KubeletConfiguration\napiVersion: kubelet.config.k8s.io/v1beta1\n", 0o600)
		},
	},
	{
		// A regular file is the same as with the default.
		name: "rc-manager file", manages: true, forms: []fileForm{linked, mounted}, target: "resolv.real", rewrite: (*node).rewriteResolvConf, renew: (*node).renewLease,
		prepare: func(n *node) {
			n.setNetworkManager("[main]\nrc-manager=file\n")
			n.WriteFile("/etc/resolv.real", "", 0o644)
		},
	},
	{
		name: "rc-manager unmanaged", manages: true, asksDHCP: true, forms: anyForm, text: handwritten, renew: (*node).renewLease,
		prepare: func(n *node) { n.setNetworkManager("[main]\nrc-manager=unmanaged\n") },
	},
	{
		// migrate turns the file into a link, which a bind mount cannot become.
		name: "openresolv", manages: true, migrates: true, keepsLink: true, forms: []fileForm{regular, linked}, renew: (*node).renewLease,
		rewrite: func(n *node) { n.Run("resolvconf", "-u") },
		complete: func(n *node, form fileForm) {
			n.setOpenresolv()
			if form == linked {
				n.Run("sh", "-c", "echo resolv_conf=/run/resolvconf/resolv.conf >>/etc/resolvconf.conf; resolvconf -u; ln -sf ../run/resolvconf/resolv.conf "+resolvConf)
				n.awaitOpenresolv()
			}
		},
	},
	{
		name: "dns none", manages: true, forms: anyForm, text: handwritten, renew: (*node).renewLease,
		prepare: func(n *node) { n.setNetworkManager("[main]\ndns=none\n") },
	},
	{
		// NetworkManager would write a regular file. A bind mount would keep the first version of a
		// file that systemd-resolved replaces.
		name: "systemd-resolved", manages: true, migrates: true, shuffles: true, keepsLink: true, forms: []fileForm{linked}, renew: (*node).renewLease,
		complete: func(n *node, _ fileForm) { n.setResolved() },
	},
	{
		// After a migration dnsmasq is masked, so only an undo brings back what it answered.
		name: "dnsmasq", manages: true, migrates: true, onlyMigrates: true, forms: anyForm, renew: (*node).renewLease,
		text: "# dnsmasq's\nsearch admin.example\nnameserver 127.0.0.1\noptions timeout:2\n", prepare: (*node).setDnsmasq,
	},
	{
		name: "unmanaged interface", forms: anyForm, text: handwritten, prepare: func(n *node) {
			n.setNetworkManager("[keyfile]\nunmanaged-devices=interface-name:pods0;interface-name:eth0\n")
			n.setStatic()
		},
	},
	{
		name: "static", forms: anyForm, text: handwritten, prepare: func(n *node) {
			n.disableNetworkManager()
			n.setStatic()
		},
	},
	{name: "systemd-networkd", forms: anyForm, text: handwritten, prepare: (*node).setNetworkd, renew: (*node).renewNetworkd},
	{
		// systemd-networkd does not write resolv.conf itself. The other forms cannot exist, as
		// above.
		name: "systemd-networkd with systemd-resolved", migrates: true, shuffles: true, keepsLink: true, forms: []fileForm{linked}, prepare: (*node).setNetworkd,
		renew: (*node).renewNetworkd, complete: func(n *node, _ fileForm) {
			n.Unmask("systemd-resolved.service")
			n.Install("systemd-resolved")
			n.Run("systemctl", "restart", "systemd-resolved.service") // it started before the bus knew who may own its name
		},
	},
}

// setForm writes the resolv.conf of a machine that is off, unless the owner's program does.
func (n *node) setForm(kind hostKind, form fileForm) {
	n.t.Helper()
	switch {
	case form == linked && kind.target != "":
		n.linkResolvConf(kind.target)
	case form == linked && kind.text != "":
		n.WriteFile(adminsFile, kind.text, 0o644)
		n.linkResolvConf("resolv.mine")
	case form == mounted:
		text := cmp.Or(kind.text, handwritten)
		n.WriteFile(resolvConf, text, 0o644)
		n.WriteFile("/var/lib/resolv.conf", text, 0o644)
		n.WriteFile("/etc/systemd/system/mounted.service", "[Unit]\nDefaultDependencies=no\nBefore=sysinit.target\n[Service]\nType=oneshot\nRemainAfterExit=yes\n"+
			"ExecStart=mount --bind /var/lib/resolv.conf "+resolvConf+"\n[Install]\nWantedBy=sysinit.target\n", 0o644)
		n.Enable("mounted.service")
	case kind.text != "":
		n.WriteFile(resolvConf, kind.text, 0o644)
	}
}

func (n *node) linkResolvConf(target string) {
	n.t.Helper()
	if err := os.Remove(n.Path(resolvConf)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		n.t.Fatal(err)
	}
	if err := os.Symlink(target, n.Path(resolvConf)); err != nil {
		n.t.Fatal(err)
	}
}

// setNetworkManager adds settings that override the machine's own, such as pods.conf: for each key
// the last file counts.
func (n *node) setNetworkManager(text string) {
	n.WriteFile("/etc/NetworkManager/conf.d/zz-kind.conf", text, 0o644)
}

func (n *node) disableNetworkManager() {
	n.l.Run("systemctl", "--quiet", "--root="+n.Path("/"), "disable", "NetworkManager.service")
}

// setStatic sets eth0's address with an admin's unit.
func (n *node) setStatic() {
	n.WriteFile("/etc/systemd/system/static.service", "[Unit]\nBefore=network.target\n[Service]\nType=oneshot\nRemainAfterExit=yes\n"+
		"ExecStart=/bin/sh -c 'ip address add "+nodeIP+"/24 dev eth0; ip link set eth0 up; ip route add default via "+router+"'\n[Install]\nWantedBy=multi-user.target\n", 0o644)
	n.Enable("static.service")
}

// setNetworkd makes systemd-networkd get eth0's address.
func (n *node) setNetworkd() {
	n.disableNetworkManager()
	n.Unmask("systemd-networkd.service")
	n.WriteFile("/etc/systemd/network/eth0.network", "[Match]\nName=eth0\n[Network]\nDHCP=ipv4\n", 0o644)
	n.Enable("systemd-networkd.service")
}

// setDnsmasq makes an admin's dnsmasq answer the host. It asks NetworkManager's nameservers.
func (n *node) setDnsmasq() {
	n.t.Helper()
	lab.Need(n.t, "dnsmasq")
	n.setNetworkManager("[main]\nrc-manager=unmanaged\n")
	n.Unmask("dnsmasq.service")
	n.WriteFile(unitFiles+"dnsmasq.service", lab.DnsmasqService, 0o644)
	n.WriteFile("/etc/dnsmasq.conf", "resolv-file=/run/NetworkManager/resolv.conf\nstrict-order\n", 0o644)
	n.Enable("dnsmasq.service")
}

// rewriteResolvConf makes NetworkManager write resolv.conf.
func (n *node) rewriteResolvConf() {
	n.t.Helper()
	n.Run("nmcli", "general", "reload", "dns-rc")
}

// renewLease makes NetworkManager get another lease.
func (n *node) renewLease(servers []string) {
	n.t.Helper()
	n.dhcp.SetNameservers(servers...)
	n.Run("nmcli", "connection", "up", "eth0")
}

// renewNetworkd makes systemd-networkd get another lease.
func (n *node) renewNetworkd(servers []string) {
	n.t.Helper()
	n.dhcp.SetNameservers(servers...)
	n.Run("networkctl", "reconfigure", "eth0")
	n.Await("the new lease", func() bool {
		for line := range strings.Lines(first(n.Try("sh", "-c", "cat /run/systemd/netif/links/*"))) {
			if list, ok := strings.CutPrefix(line, "DNS="); ok && slices.Equal(strings.Fields(list), servers) {
				return true
			}
		}
		return false
	})
}
