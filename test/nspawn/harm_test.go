package nspawn

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"
)

var (
	harmWalks  = flag.Int("harm.walks", 1, "random walks of TestNoHarmManaged and TestNoHarmByHand for each kind of host")
	harmRounds = flag.Int("harm.rounds", 1, "starts and ends of node-dns in each walk")
	harmSeed   = flag.Uint64("harm.seed", 1, "seed of the first walk")
)

// awaitLimit bounds a wait for an expected state. It only detects a stuck machine and is not a
// performance limit.
const awaitLimit = time.Minute

// Nameservers of the LAN besides those that DHCP offers.
const (
	adminNS = "10.77.0.56"
	vpnNS   = "10.77.0.57"
)

// hostKind is a host's owner of resolv.conf and the kind of that file.
type hostKind struct {
	name     string
	prepare  func(n *node) // before the machine boots
	complete func(n *node) // after the boot
	manages  bool          // NetworkManager manages eth0
	linked   bool          // resolv.conf is a link, which admins do not write through
	asksDHCP bool          // node-dns uses the nameservers from DHCP instead of those in the file: docs/explanation/precedence.md
	migrates bool          // there is something to migrate; otherwise `migrate --apply` does nothing
	shuffles bool          // the search list has no fixed order: systemd-resolved keeps links in a hash table with a random seed
	writes   bool          // NetworkManager itself writes resolv.conf, and an edit lasts until its next event: docs/howto/coexistence.md
}

// handwritten is an admin's resolv.conf.
const handwritten = "# the site's\nsearch admin.example\nnameserver " + adminNS + "\noptions timeout:2\n"

func (n *node) setHandwritten() { n.WriteFile(resolvConf, handwritten, 0o644) }

// setNetworkManager adds settings that override the machine's own, such as pods.conf: for each key
// the last file counts.
func (n *node) setNetworkManager(text string) {
	n.WriteFile("/etc/NetworkManager/conf.d/zz-kind.conf", text, 0o644)
}

// setStatic sets eth0's address with an admin's unit.
func (n *node) setStatic() {
	n.WriteFile("/etc/systemd/system/static.service", "[Unit]\nBefore=network.target\n[Service]\nType=oneshot\nRemainAfterExit=yes\n"+
		"ExecStart=/bin/sh -c 'ip address add "+nodeIP+"/24 dev eth0; ip link set eth0 up; ip route add default via "+router+"'\n[Install]\nWantedBy=multi-user.target\n", 0o644)
	n.Enable("static.service")
}

func (n *node) disableNetworkManager() {
	n.l.Run("systemctl", "--quiet", "--root="+n.Path("/"), "disable", "NetworkManager.service")
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

var hostKinds = []hostKind{
	{name: "NetworkManager", manages: true, writes: true},
	{name: "link to NetworkManager's file", manages: true, linked: true, prepare: func(n *node) { n.linkResolvConf("/run/NetworkManager/resolv.conf") }},
	{name: "rc-manager file", manages: true, linked: true, prepare: func(n *node) {
		n.setNetworkManager("[main]\nrc-manager=file\n")
		n.WriteFile("/etc/resolv.real", "", 0o644)
		n.linkResolvConf("resolv.real")
	}},
	{name: "rc-manager unmanaged", manages: true, asksDHCP: true, prepare: func(n *node) {
		n.setNetworkManager("[main]\nrc-manager=unmanaged\n")
		n.setHandwritten()
	}},
	{name: "openresolv", manages: true, migrates: true, linked: true, complete: (*node).setOpenresolv},
	{name: "dns none", manages: true, prepare: func(n *node) {
		n.setNetworkManager("[main]\ndns=none\n")
		n.setHandwritten()
	}},
	{name: "unmanaged interface", prepare: func(n *node) {
		n.setNetworkManager("[keyfile]\nunmanaged-devices=interface-name:pods0;interface-name:eth0\n")
		n.setStatic()
		n.setHandwritten()
	}},
	{name: "static", prepare: func(n *node) {
		n.disableNetworkManager()
		n.setStatic()
		n.setHandwritten()
	}},
	{name: "systemd-networkd", prepare: func(n *node) {
		n.disableNetworkManager()
		n.Unmask("systemd-networkd.service")
		n.WriteFile("/etc/systemd/network/eth0.network", "[Match]\nName=eth0\n[Network]\nDHCP=ipv4\n", 0o644)
		n.Enable("systemd-networkd.service")
		n.setHandwritten()
	}},
	{name: "systemd-resolved", manages: true, migrates: true, linked: true, shuffles: true, complete: (*node).setResolved},
	{name: "bind mount", prepare: func(n *node) {
		n.disableNetworkManager()
		n.setStatic()
		n.setHandwritten()
		n.WriteFile("/var/lib/resolv.conf", handwritten, 0o644)
		n.WriteFile("/etc/systemd/system/mounted.service", "[Unit]\nDefaultDependencies=no\nBefore=sysinit.target\n[Service]\nType=oneshot\nRemainAfterExit=yes\n"+
			"ExecStart=mount --bind /var/lib/resolv.conf "+resolvConf+"\n[Install]\nWantedBy=sysinit.target\n", 0o644)
		n.Enable("mounted.service")
	}},
}

// A harmStep is one step of a walk, with a name for the log of a failure.
type harmStep struct {
	name  string
	where func(k hostKind) bool // nil means every host
	do    func(p *twins, random *rand.Rand)
}

func managed(k hostKind) bool { return k.manages }

// changes are what an admin, NetworkManager, DHCP or another tool may do while node-dns runs.
var changes = []harmStep{
	{"an admin edits resolv.conf", func(k hostKind) bool { return !k.linked && !k.writes }, func(p *twins, random *rand.Rand) {
		text := fmt.Sprintf("search edited%d.example\nnameserver %s\n", random.IntN(10), []string{ns1, ns2, adminNS}[random.IntN(3)])
		p.both(func(n *node) { n.Run("sh", "-c", "cat >"+resolvConf+" <<'END'\n"+text+"END") })
	}},
	{"DHCP offers another nameserver", managed, func(p *twins, random *rand.Rand) {
		offer := [][]string{{ns1}, {ns2}, {ns2, ns1}}[random.IntN(3)]
		p.both(func(n *node) {
			n.dhcp.SetNameservers(offer...)
			n.Run("nmcli", "connection", "up", "eth0")
		})
	}},
	{"the search list changes", managed, func(p *twins, random *rand.Rand) {
		search := fmt.Sprintf("site%d.example", random.IntN(10))
		p.both(func(n *node) {
			n.Run("nmcli", "connection", "modify", "eth0", "ipv4.dns-search", search)
			n.Run("nmcli", "device", "reapply", "eth0")
		})
	}},
	{"a VPN comes", managed, func(p *twins, _ *rand.Rand) {
		p.both(func(n *node) {
			if _, err := n.Try("nmcli", "connection", "show", "vpn"); err != nil {
				n.Run("nmcli", "connection", "add", "type", "bridge", "ifname", "vpn0", "con-name", "vpn", "autoconnect", "no", "bridge.stp", "no", "ipv4.method", "manual",
					"ipv4.addresses", "10.7.0.1/24", "ipv4.never-default", "yes", "ipv4.dns", vpnNS, "ipv4.dns-search", "vpn.example", "ipv6.method", "disabled")
			}
			n.Run("nmcli", "connection", "up", "vpn")
		})
	}},
	{"the VPN goes", managed, func(p *twins, _ *rand.Rand) {
		p.both(func(n *node) { n.Try("nmcli", "connection", "down", "vpn") }) // usually it does not exist
	}},
	{"NetworkManager writes resolv.conf again", managed, func(p *twins, _ *rand.Rand) {
		p.both(func(n *node) { n.Run("nmcli", "general", "reload", "dns-rc") })
	}},
	{"NetworkManager is restarted", managed, func(p *twins, _ *rand.Rand) {
		p.both(func(n *node) {
			n.Run("systemctl", "restart", "NetworkManager.service")
			n.Await("eth0", func() bool {
				return strings.Contains(first(n.Try("nmcli", "-g", "GENERAL.STATE", "device", "show", "eth0")), "(connected)")
			})
		})
	}},
	{"node-dns is restarted", nil, func(p *twins, _ *rand.Rand) { p.Run("systemctl", "restart", "node-dns.service") }},
	{"node-dns is killed", nil, func(p *twins, _ *rand.Rand) { p.Run("systemctl", "kill", "--signal=KILL", "node-dns.service") }},
}

// ends are the ways in which node-dns stops serving. Each leaves it installed but not running.
var ends = []harmStep{
	{"a stop", nil, func(p *twins, _ *rand.Rand) { p.Run("systemctl", "disable", "--now", "node-dns.service") }},
	{"a power-off and a boot", nil, func(p *twins, _ *rand.Rand) {
		p.Run("systemctl", "disable", "node-dns.service")
		p.both((*node).reboot)
	}},
	{"a crash loop", nil, func(p *twins, _ *rand.Rand) {
		const program = "/usr/sbin/node-dns"
		p.Run("mv", program, program+".good")
		p.WriteFile(program, "#!/bin/sh\nexit 1\n", 0o755)
		p.Run("systemctl", "kill", "--signal=KILL", "node-dns.service")
		p.Await("systemd to try again and again", func() bool { return p.restarts() > 3 })
		p.awaitSame("in a crash loop")
		p.Run("systemctl", "disable", "--now", "node-dns.service")
		p.Run("mv", program+".good", program)
	}},
	{"an erase", nil, func(p *twins, _ *rand.Rand) {
		p.Run("rpm", "--erase", "node-dns")
		p.awaitSame("after an erase")
		p.Run("rpm", "--install", p.rpm)
	}},
	{"migrate --undo", func(k hostKind) bool { return k.migrates }, func(p *twins, _ *rand.Rand) { p.Run("node-dns", "migrate", "--undo") }},
}

// TestNoHarmManaged and TestNoHarmByHand make random changes to a host while node-dns runs, and end
// node-dns in each way. Afterwards the host must resolve like a host of the same kind with the same
// changes but without node-dns. While node-dns runs, queries must go to the same nameserver as
// without it. 300 walks: -harm.walks=28 -timeout=6h.
func TestNoHarmManaged(t *testing.T) { walkHosts(t, true) }

func TestNoHarmByHand(t *testing.T) { walkHosts(t, false) }

func walkHosts(t *testing.T, managed bool) {
	for i, kind := range hostKinds {
		if kind.manages != managed {
			continue
		}
		for walk := range *harmWalks {
			seed := *harmSeed + uint64(walk)
			t.Run(fmt.Sprintf("%s/seed %d", kind.name, seed), func(t *testing.T) { walkHarm(t, kind, rand.New(rand.NewPCG(seed, uint64(i)))) })
		}
	}
}

func walkHarm(t *testing.T, kind hostKind, random *rand.Rand) {
	p := newTwins(t, kind)
	for range *harmRounds {
		p.round(kind, pick(ends, kind, random), random)
	}
}

// round starts node-dns, changes the host one to three times, and ends node-dns.
func (p *twins) round(kind hostKind, end harmStep, random *rand.Rand) {
	p.t.Log("a start")
	if end.name == "migrate --undo" {
		p.Run("node-dns", "migrate", "--apply")
	} else {
		p.Run("systemctl", "enable", "--now", "node-dns.service")
	}
	p.awaitServing(kind, "after a start")
	for range 1 + random.IntN(3) {
		change := pick(changes, kind, random)
		p.t.Log(change.name)
		change.do(p, random)
		p.awaitServing(kind, "after: "+change.name+":")
	}
	p.t.Log(end.name)
	end.do(p, random)
	p.awaitSame("after " + end.name)
}

// pick returns a random step that is possible on this kind of host.
func pick(steps []harmStep, kind hostKind, random *rand.Rand) harmStep {
	for {
		if step := steps[random.IntN(len(steps))]; step.where == nil || step.where(kind) {
			return step
		}
	}
}
