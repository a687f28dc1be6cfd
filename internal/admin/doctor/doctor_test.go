package doctor

import (
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/admin/firewall"
	"github.com/node-dns/node-dns/internal/admin/migrate"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
	"github.com/node-dns/node-dns/internal/hostdns"
	"github.com/node-dns/node-dns/internal/netstate"
	"github.com/node-dns/node-dns/internal/nm"
	"github.com/node-dns/node-dns/internal/nodeconfig"
	"github.com/node-dns/node-dns/internal/sys/procfs"
	"github.com/node-dns/node-dns/internal/sys/termtext"
	"github.com/node-dns/node-dns/internal/test/golden"
)

var epoch = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

const (
	nodeIP = "10.0.0.7"
	ours   = "# nameserver is this node: node-dns in place of 99-origin-dns.sh; original: /var/lib/node-dns/resolv.conf.orig; undo: origin-dns-dispatcher restore\n"
)

// well is a healthy node.
func well(t *testing.T, changes ...func(*Snapshot)) Snapshot {
	t.Helper()
	config, err := nodeconfig.Load(nodeconfig.DefaultPaths(t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	quick := Answer{Rcode: "NOERROR", EDNS: true, Took: time.Millisecond, Size: 100}
	large := quick
	large.Size = 1139
	s := Snapshot{
		Live: true, Now: epoch,
		Host: migrate.Host{
			State: hostdns.State{
				Paths: hostdns.NewPaths("/"), Config: config,
				Net: netstate.State{
					Addrs:    []netstate.Addr{{Addr: netip.MustParseAddr(nodeIP), Interface: "eth0", Up: true}},
					Default4: &netstate.DefaultRoute{Interface: "eth0", Source: netip.MustParseAddr(nodeIP)},
				},
				NetworkManager: &nm.Snapshot{Version: "1.42.4", Mode: "default", RcManager: "symlink"},
				ResolvConf:     text(ours + "nameserver " + nodeIP + "\nsearch cluster.local corp.example\n"),
				Original:       text("nameserver 192.0.2.53\n"),
			},
			Files: map[string]hostdns.File{}, Root: true,
			Holders: []migrate.Holder{holder("udp", nodeIP, 42, "node-dns", daemonUnit), holder("tcp", nodeIP, 42, "node-dns", daemonUnit)},
		},
		Status: &control.Status{
			Version: "1.0.0", PID: 42, Ready: true,
			Listeners:  []control.Listener{{Address: nodeIP + ":53", UDP: true, TCP: true}},
			Cluster:    control.Cluster{Domain: "cluster.local.", Resolver: &control.Resolver{Phase: "synced", Services: 12, Endpoints: 40}},
			Routes:     []control.Route{{Domain: ".", Servers: []control.Server{{Address: "192.0.2.53:53", State: "up"}}}},
			ResolvConf: control.ResolvConf{Ours: true},
		},
		Units: map[string]migrate.Unit{
			daemonUnit:        {Load: "loaded", Active: "active", File: "enabled"},
			applyPath:         {Load: "loaded", Active: "active", File: "static"},
			managerUnit:       {Load: "loaded", Active: "active", File: "enabled"},
			dispatcherUnit:    {Load: "loaded", Active: "inactive", File: "enabled"},
			resolvedUnit:      {Load: "not-found", Active: "inactive"},
			"chronyd.service": {Load: "loaded", Active: "active", File: "enabled"},
		},
		ResolvConf: Resolv{Kind: "regular", Mode: 0o644, Label: "system_u:object_r:net_conf_t:s0\x00"},
		SELinux: SELinux{
			Mode: procfs.SELinuxEnforcing, Config: SELinuxConfig{Mode: "enforcing", Policy: "targeted"}, InKernel: true, HasModule: true, Daemon: "node_dns_t",
			Hooks: []HookDomain{{"NetworkManager-dispatcher.service", "NetworkManager_dispatcher_custom_t"}, {daemonUnit, "node_dns_hook_t"}},
		},
		Hooks:       []Program{{Path: "/usr/lib/NetworkManager/dispatcher.d/99-origin-dns", Executable: true}},
		NSSwitch:    text("passwd: files\nhosts: files dns myhostname # as ever\n"),
		Kubelet:     Kubelet{Configured: true, Path: "/etc/origin/node/resolv.conf", Source: "resolvConf /var/lib/kubelet/config.yaml:9", File: text("nameserver 192.0.2.53\n")},
		Upstreams:   []Probe{{Server: "192.0.2.53:53", Domains: []string{"."}, EDNS: quick, TCP: quick, Large: large}},
		API:         API{Rights: Rights{Kubeconfig: "/etc/node-dns/kubeconfig"}, Server: "https://10.0.0.1:6443", NotBefore: epoch.AddDate(0, -6, 0), NotAfter: epoch.AddDate(0, 6, 0)},
		Clock:       Clock{Known: true, BuiltAt: epoch.AddDate(0, -1, 0)},
		Storage:     []Storage{{Path: "/var/lib/node-dns", Exists: true, Owner: "root", Want: "root", Free: 1 << 30, Inodes: 1000, Mode: 0o755}},
		Descriptors: 65536,
		Program:     Build{Version: "1.0.0", Commit: "aaaa"},
		Hook:        Build{Path: hookProgram, Commit: "aaaa"},
		Kernel:      "5.14.0-427.el9.x86_64", Systemd: "252.39-1",
	}
	for _, change := range changes {
		change(&s)
	}
	s.Host.Plan = hostdns.NewPlan(s.Host.State)
	return s
}

func text(data string) hostdns.File {
	return hostdns.File{Exists: true, Data: []byte(data), Mode: 0o644}
}

func holder(proto, addr string, pid int, name, unit string) migrate.Holder {
	return migrate.Holder{Proto: proto, Addr: netip.AddrPortFrom(netip.MustParseAddr(addr), 53), PID: pid, Name: name, Unit: unit}
}

// down stops the daemon.
func down(s *Snapshot) {
	s.Status, s.StatusErr, s.Host.Holders = nil, control.ErrNotRunning, nil
	s.Units[daemonUnit] = migrate.Unit{Load: "loaded", Active: "inactive", File: "enabled"}
	s.Host.State.ResolvConf = text("nameserver 192.0.2.53\n")
}

func daemonIs(unit migrate.Unit) func(*Snapshot) {
	return func(s *Snapshot) {
		down(s)
		s.Units[daemonUnit] = unit
	}
}

func heldBy(pid int, name, unit string, protos ...string) func(*Snapshot) {
	return func(s *Snapshot) {
		down(s)
		for _, proto := range protos {
			s.Host.Holders = append(s.Host.Holders, holder(proto, "0.0.0.0", pid, name, unit))
		}
	}
}

// rcManager sets rc-manager in NetworkManager's configuration.
func rcManager(value string) func(*Snapshot) {
	return func(s *Snapshot) { s.NMConf.RcManager = nm.Setting{Value: value, File: "/etc/x.conf", Line: 3} }
}

// skyDNS puts another program at the address of dnsBindAddress.
func skyDNS(h migrate.Holder) func(*Snapshot) {
	return func(s *Snapshot) {
		at := netip.MustParseAddrPort("127.0.0.1:53")
		s.Host.State.Config.DNSBindAddress, h.Addr = at, at
		s.Status.Listeners = append(s.Status.Listeners, control.Listener{Address: at.String(), Error: "bind: address already in use", Spare: true})
		for _, h.Proto = range protocols {
			s.Host.Holders = append(s.Host.Holders, h)
		}
	}
}

func resolver(r control.Resolver) func(*Snapshot) {
	return func(s *Snapshot) { s.Status.Cluster.Resolver = &r }
}

var (
	drops  = &firewall.Ruleset{Inputs: []firewall.Chain{{Family: firewall.Inet, Table: "filter", Name: "input", Drop: true}}}
	public = &firewall.Firewalld{Default: "public", Zones: []firewall.Zone{{Name: "public"}}}
)

// filteredBy adds a filter and an interface, given as in "cni0 10.128.0.1/24".
func filteredBy(filter firewall.State, link string) func(*Snapshot) {
	return func(s *Snapshot) {
		name, prefix, _ := strings.Cut(link, " ")
		p := netip.MustParsePrefix(prefix)
		s.Host.State.Net.Addrs = append(s.Host.State.Net.Addrs, netstate.Addr{Addr: p.Addr(), Bits: p.Bits(), Interface: name, Up: true})
		s.Host.Filter = filter
	}
}

// checkRow is the expected result of a check after a change.
type checkRow struct {
	check  string
	name   string
	change func(s *Snapshot)
	level  Level
	says   string // parts of what, details and fix; empty together with level if nothing is reported
}

// rows are the rows of most checks; askedRows and selinuxRows hold the others.
var rows = []checkRow{
	{"daemon", "is well", nil, OK, "node-dns 1.0.0 runs (pid 42), and is ready"},
	{"daemon", "leaves the node to the RPM", func(s *Snapshot) {
		s.Status.Ready, s.Status.LeftTo = true, "node-dns 0.9.0 at 10.0.0.7:53"
	}, OK, "and leaves this node to node-dns 0.9.0 at 10.0.0.7:53"},
	{"daemon", "may not be asked", func(s *Snapshot) { s.Status, s.StatusErr = nil, fs.ErrPermission }, Warn, "run this as root"},
	{"daemon", "hangs", func(s *Snapshot) { s.Status, s.StatusErr = nil, os.ErrDeadlineExceeded }, Fail, "does not answer on its control socket: no answer within 3s"},
	{"daemon", "ended while it was asked", func(s *Snapshot) {
		s.Status, s.StatusErr = nil, &url.Error{Op: "Get", URL: "http://node-dns/v1/status", Err: &net.OpError{Op: "read", Net: "unix", Err: os.NewSyscallError("read", unix.ECONNRESET)}}
	}, Fail, "does not answer on its control socket: connection reset by peer"},
	{"daemon", "hung", daemonIs(migrate.Unit{Load: "loaded", Active: "activating", Sub: "auto-restart", Result: "watchdog", Restarts: "0"}), Fail, "it hung, and systemd's watchdog stopped it|systemd restarts it automatically"},
	{"daemon", "complains of a server, which is asked here", func(s *Snapshot) {
		s.Status.Routes[0].Servers[0] = control.Server{Address: "192.0.2.53:53", State: "down", Error: "timeout"}
		s.Status.Problems = s.Status.DownServers()
	}, OK, "is ready"},
	{"daemon", "without systemd", func(s *Snapshot) { down(s); s.Units = nil }, Fail, "is not running: no process listens on its control socket|systemctl enable --now node-dns"},
	{"daemon", "stopped", daemonIs(migrate.Unit{Load: "loaded", Active: "inactive", File: "enabled"}), Fail, "it is stopped|systemctl start node-dns"},
	{"daemon", "never enabled", daemonIs(migrate.Unit{Load: "loaded", Active: "inactive", File: "disabled"}), Fail, "not enabled|systemctl enable --now node-dns"},
	{"daemon", "masked", daemonIs(migrate.Unit{Load: "masked", Active: "inactive", File: "masked"}), Fail, "is masked|systemctl unmask node-dns && systemctl enable --now node-dns"},
	{"daemon", "not installed", daemonIs(migrate.Unit{Load: "not-found", Active: "inactive"}), Fail, "there is no node-dns.service|install the package"},
	{"daemon", "a unit that makes no sense", daemonIs(migrate.Unit{Load: "bad-setting", Active: "inactive"}), Fail, "cannot be loaded (bad-setting)|systemd-analyze verify"},
	{"daemon", "given up", func(s *Snapshot) {
		daemonIs(migrate.Unit{Load: "loaded", Active: "failed", Result: "start-limit-hit"})(s)
		s.Log = []string{"node-dns[7]: listening: address in use"}
	}, Fail, "start-limit-hit|node-dns[7]: listening: address in use|systemctl reset-failed node-dns"},
	{"daemon", "given up, by its log alone", func(s *Snapshot) {
		daemonIs(migrate.Unit{Load: "loaded", Active: "failed", Result: "exit-code"})(s)
		s.Log = []string{"systemd[1]: node-dns.service: Start request repeated too quickly."}
	}, Fail, "no longer restarts it (start-limit-hit)"},
	{"daemon", "failed", daemonIs(migrate.Unit{Load: "loaded", Active: "failed", Result: "exit-code"}), Fail, "it failed (exit-code)"},
	{"daemon", "crashes", daemonIs(migrate.Unit{Load: "loaded", Active: "activating", Sub: "auto-restart", Result: "core-dump", Restarts: "7"}), Fail, "exits right after its start (core-dump), 7 times"},
	{"daemon", "is starting", daemonIs(migrate.Unit{Load: "loaded", Active: "activating", Sub: "start"}), Fail, "is starting|node-dns wait"},
	{"daemon", "is stopping", daemonIs(migrate.Unit{Load: "loaded", Active: "deactivating"}), Fail, "is stopping"},
	{"daemon", "runs without a socket", daemonIs(migrate.Unit{Load: "loaded", Active: "active"}), Fail, "systemd reports it as running"},

	{"migration", "none", nil, "", ""},
	{"migration", "done", func(s *Snapshot) { s.Migration = &migrate.Journal{Phase: migrate.Applied} }, "", ""},
	{"migration", "in between", func(s *Snapshot) {
		s.Migration = &migrate.Journal{Phase: migrate.Applying, Done: 1, Steps: make([]migrate.Step, 3)}
	}, Fail, "applying, 1 of 3 steps|--apply continues it"},
	{"migration", "on the way back", func(s *Snapshot) { s.Migration = &migrate.Journal{Phase: migrate.Undoing} }, Fail, "migrate --undo continues it"},

	{"configuration", "none", nil, OK, "all settings have their defaults"},
	{"configuration", "good", func(s *Snapshot) { s.Host.State.Config.Files = []string{"a", "b"} }, OK, "no errors in 2 files"},
	{"configuration", "faults", func(s *Snapshot) {
		s.Host.State.ConfigErr = errors.Join(&nodeconfig.Fault{File: "/etc/node-dns/node-dns.yaml", Line: 1, Column: 9, Expected: "a list", Got: "x"})
	}, Fail, "/etc/node-dns/node-dns.yaml:1:9|node-dns check-config"},
	{"configuration", "several faults", func(s *Snapshot) {
		s.Host.State.ConfigErr = errors.Join(&nodeconfig.Fault{File: "/etc/node-dns/node-dns.yaml", Line: 1, Column: 1, Expected: "a list", Got: "x"},
			&nodeconfig.Fault{File: "/etc/node-dns/node-dns.yaml", Line: 2, Column: 1, Expected: "a list", Got: "y"})
	}, Fail, "the configuration has 2 errors|/etc/node-dns/node-dns.yaml:1:1|/etc/node-dns/node-dns.yaml:2:1"},
	{"configuration", "names this node", func(s *Snapshot) {
		s.Host.State.Upstreams = text("server=192.0.2.53\nserver=/corp.test/10.0.0.7\nserver=10.0.0.7\n")
	}, Warn, "/etc/dnsmasq.d/origin-upstream-dns.conf:3: server=10.0.0.7 is this node; ignored (would loop)"},
	{"configuration", "unreadable", func(s *Snapshot) { s.Host.State.ConfigErr = errors.New("reading a: denied\nmore") }, Fail, "reading a: denied"},
	{"configuration", "to be handed over", func(s *Snapshot) { s.Host.State.Config.FactsWanted = "/etc/origin/node/node-config.yaml has changed" }, Warn, "has changed|origin-dns-dispatcher apply"},

	{"node-address", "is there", nil, OK, "10.0.0.7 is on an interface"},
	{"node-address", "is not there", func(s *Snapshot) { s.Host.State.Config.NodeIP = netip.MustParseAddr("10.9.9.9") }, Fail, "10.9.9.9, the configured node address, is not on any interface"},
	{"node-address", "no network", func(s *Snapshot) { s.Host.State.Net = netstate.State{} }, Fail, "no default route"},
	{"node-address", "not known", func(s *Snapshot) { s.Host.State.NetErr = errors.New("asking the kernel") }, Warn, "asking the kernel"},

	{"port", "is ours", nil, OK, "10.0.0.7:53: only node-dns listens (udp+tcp)"},
	{"port", "is kept by systemd for the daemon", func(s *Snapshot) { s.Host.Holders[0].PID, s.Host.Holders[1].PID = 0, 0 }, OK, "node-dns listens"},
	{"port", "is free", down, OK, "free for node-dns"},
	{"port", "is dnsmasq's", heldBy(7, "dnsmasq", "dnsmasq.service", "udp", "tcp"), Fail, "10.0.0.7:53 is in use by dnsmasq of dnsmasq.service|dnsmasq (pid 7, dnsmasq.service) uses 0.0.0.0:53 udp|0.0.0.0:53 tcp|node-dns migrate"},
	{"port", "is half somebody's, without a unit", heldBy(9, "named", "", "tcp"), Fail, "is in use by named|named (pid 9) uses 0.0.0.0:53 tcp|kill 9"},
	{"port", "is a container's", heldBy(9, "coredns", "crio-1.scope", "udp"), Fail, "coredns of crio-1.scope|systemctl status crio-1.scope"},
	// The names of systemd units contain backslashes, which a shell removes.
	{"port", "is an escaped unit's", heldBy(9, "named", `my\x2ddns.service`, "udp"), Fail, `systemctl disable --now 'my\x2ddns.service'`},
	{"port", "is a container's of no unit", func(s *Snapshot) {
		heldBy(9, "coredns", "", "udp")(s)
		s.Host.Holders[0].Container = true
	}, Fail, "in use by coredns|container runtime started it"},
	// Doctor once advised "systemctl disable --now origin-node.service", which stops the kubelet.
	{"port", "is a node agent's", heldBy(9, "openshift", "origin-node.service", "udp"), Fail, "in use by openshift of origin-node.service|leave it running: this node needs it"},
	// "systemctl disable --now libvirtd.service" would stop virtual machines' network, not dnsmasq.
	{"port", "is libvirt's dnsmasq's", heldBy(9, "dnsmasq", "libvirtd.service", "udp"), Fail, "in use by dnsmasq of libvirtd.service|leave it running: this node needs it"},
	{"port", "is a node agent's without a unit", heldBy(9, "hyperkube", "", "udp"), Fail, "leave it running: this node needs it"},
	{"port", "is SkyDNS's, as dnsBindAddress says", skyDNS(migrate.Holder{Name: "openshift", PID: 9, Unit: "origin-node.service"}), OK, "127.0.0.1:53 is used by openshift of origin-node.service"},
	{"port", "is SkyDNS's in the SDN's pod", skyDNS(migrate.Holder{Name: "openshift", PID: 9, Container: true}), OK, "127.0.0.1:53 is used by openshift"},
	{"port", "of dnsBindAddress is dnsmasq's", skyDNS(migrate.Holder{Name: "dnsmasq", PID: 9, Unit: "dnsmasq.service"}), Fail, "127.0.0.1:53 is in use by dnsmasq"},
	{"port", "is ours and another's", func(s *Snapshot) {
		s.Host.Holders = append(s.Host.Holders, holder("udp", nodeIP, 7, "dnsmasq", "dnsmasq.service"))
	}, Fail, "in use by dnsmasq of dnsmasq.service"},
	{"port", "is ours over UDP alone", func(s *Snapshot) {
		s.Host.Holders = s.Host.Holders[:1]
		s.Status.Listeners[0].TCP, s.Status.Listeners[0].Error = false, "address already in use"
	}, Fail, "does not listen on 10.0.0.7:53 (tcp): address already in use"},
	{"port", "used by a process that only root sees", func(s *Snapshot) { heldBy(0, "", "", "udp")(s); s.Host.Root = false }, Warn, "that only root can identify"},
	{"port", "is a socket unit's", heldBy(0, "", "", "udp", "tcp"), Warn, "systemd for a socket unit|systemctl list-sockets"},
	{"port", "of another is no matter", func(s *Snapshot) {
		s.Host.Holders = append(s.Host.Holders, holder("udp", "127.0.0.53", 8, "systemd-resolve", resolvedUnit))
	}, OK, "only node-dns listens"},

	{"input-filter", "is not known", nil, "", ""},
	{"input-filter", "with no clients", filteredBy(firewall.State{Rules: drops}, "eth0 10.0.0.7/24"), "", ""},
	{"input-filter", "accepts", filteredBy(firewall.State{Rules: &firewall.Ruleset{}}, "cni0 10.128.0.1/24"), OK, "no input filter drops DNS from clients on cni0"},
	{"input-filter", "drops, by firewalld", filteredBy(firewall.State{Firewalld: public}, "cni0 10.128.0.1/24"), Fail, "firewalld drops DNS from pods on cni0: zone public does not allow service dns|clients in 10.128.0.0/24|firewall-cmd --permanent --zone=public --add-service=dns && firewall-cmd --reload"},
	{"input-filter", "drops, by nftables", filteredBy(firewall.State{Rules: drops}, "cni0 10.128.0.1/24"), Fail, `chain input of table inet filter drops DNS from pods on cni0|nft 'insert rule inet filter input iifname "cni0"`},
	{"input-filter", "drops from what may be no clients", filteredBy(firewall.State{Rules: drops}, "eth1 192.168.3.7/24"), Warn, "drops DNS from clients on eth1|this is a guess"},
	{"input-filter", "cannot be evaluated", filteredBy(firewall.State{Rules: &firewall.Ruleset{}, Legacy: []string{"iptables-legacy"}}, "cni0 10.128.0.1/24"), Warn, "iptables-legacy may drop DNS from pods on cni0|iptables-legacy -S INPUT"},

	{"units", "are well", nil, OK, "node-dns.service active/enabled, node-dns-apply.path active/static"},
	{"units", "no systemd", func(s *Snapshot) { s.Units = nil }, "", ""},
	{"units", "not enabled", func(s *Snapshot) {
		s.Units[daemonUnit] = migrate.Unit{Load: "loaded", Active: "active", File: "disabled"}
	}, Warn, "not enabled: it does not start at the next boot"},
	{"units", "nobody hears the daemon", func(s *Snapshot) { s.Units[applyPath] = migrate.Unit{Load: "loaded", Active: "failed"} }, Fail, "node-dns-apply.path is failed|systemctl restart node-dns-apply.path"},
	{"units", "nobody may hear it", func(s *Snapshot) { s.Units[applyPath] = migrate.Unit{Load: "masked", Active: "inactive"} }, Fail, "node-dns-apply.path is masked|systemctl unmask --runtime"},
	{"units", "no hooks", func(s *Snapshot) {
		s.Units[dispatcherUnit] = migrate.Unit{Load: "loaded", Active: "inactive", File: "disabled"}
	}, Fail, "NetworkManager's events run no hook"},

	{"hook", "is installed", nil, OK, "/usr/lib/NetworkManager/dispatcher.d/99-origin-dns"},
	{"hook", "is not", func(s *Snapshot) { s.Hooks = nil }, Fail, "not installed"},
	{"hook", "is not, nor is NetworkManager", func(s *Snapshot) { s.Hooks, s.Host.State.NetworkManager = nil, nil }, OK, "NetworkManager does not run"},
	{"hook", "is switched off", func(s *Snapshot) {
		s.Hooks = []Program{{Path: "/etc/NetworkManager/dispatcher.d/99-origin-dns", Target: "/dev/null"}, s.Hooks[0]}
	}, Fail, "points to /dev/null|rm /etc/NetworkManager/dispatcher.d/99-origin-dns"},
	{"hook", "cannot be run", func(s *Snapshot) { s.Hooks[0].Executable = false }, Fail, "not executable|chmod 755"},

	{"old-hook", "is gone", nil, OK, "not installed"},
	{"old-hook", "is there", func(s *Snapshot) {
		s.OldHooks = []Program{{Path: "/etc/NetworkManager/dispatcher.d/99-origin-dns.sh", Executable: true}}
	}, Fail, "starts dnsmasq|rm /etc/NetworkManager/dispatcher.d/99-origin-dns.sh"},
	{"old-hook", "is there, and cannot be run", func(s *Snapshot) {
		s.OldHooks = []Program{{Path: "/usr/lib/NetworkManager/dispatcher.d/99-origin-dns.sh"}}
	}, Warn, "not executable"},

	{"resolv.conf", "is well", nil, OK, "/etc/resolv.conf: regular file, label net_conf_t, managed by node-dns, nameserver 10.0.0.7, 2 search domains"},
	{"resolv.conf", "a link", func(s *Snapshot) { s.Host.State.ResolvConf.Link = "/run/x" }, OK, "link to /run/x"},
	{"resolv.conf", "is gone", func(s *Snapshot) { s.Host.State.ResolvConf = hostdns.File{} }, Fail, "does not exist"},
	{"resolv.conf", "leads nowhere", func(s *Snapshot) {
		s.Host.State.ResolvConf, s.ResolvConf = hostdns.File{Exists: true, Link: "/run/none"}, Resolv{}
	}, Fail, "points to /run/none, which does not exist"},
	{"resolv.conf", "cannot be read", func(s *Snapshot) { s.Host.State.ResolvConf.Err = errors.New("is a directory") }, Fail, "is a directory"},
	{"resolv.conf", "root's alone", func(s *Snapshot) { s.ResolvConf.Mode = 0o600 }, Fail, "mode 0600|chmod 644"},
	{"resolv.conf", "everybody's", func(s *Snapshot) { s.ResolvConf.Mode = 0o666 }, Warn, "users other than root may write it"},
	{"resolv.conf", "a user's", func(s *Snapshot) { s.ResolvConf.UID = 1000 }, Warn, "owned by UID 1000|chown root:root"},
	{"resolv.conf", "of another label", func(s *Snapshot) { s.ResolvConf.Label = "system_u:object_r:etc_t:s0" }, Fail, "label etc_t, not net_conf_t|restorecon"},
	{"resolv.conf", "without a label, where that means nothing", func(s *Snapshot) { s.ResolvConf.Label, s.SELinux = "", SELinux{} }, OK, "regular file, managed by node-dns"},
	{"resolv.conf", "immutable", func(s *Snapshot) { s.Host.Fixed = true }, Warn, "chattr -i"},
	{"resolv.conf", "read-only", func(s *Snapshot) { s.ResolvConf.ReadOnly = true }, Warn, "on a read-only file system"},
	{"resolv.conf", "without a nameserver", func(s *Snapshot) { s.Host.State.ResolvConf = text("search a\n") }, Fail, "has no nameserver"},
	{"resolv.conf", "names a node whose node-dns is down", func(s *Snapshot) {
		mine := s.Host.State.ResolvConf
		down(s)
		s.Host.State.ResolvConf = mine
	}, Fail, "names this node (10.0.0.7), but node-dns does not answer there|node-dns restore"},
	{"resolv.conf", "is not ours, with the daemon down", down, OK, "not managed by node-dns, nameserver 192.0.2.53"},
	{"resolv.conf", "immutable, and to be written", func(s *Snapshot) {
		s.Host.Fixed, s.Status.ResolvConf.Pending = true, []string{"/etc/resolv.conf"}
	}, Fail, "node-dns cannot change it|chattr -i"},
	{"resolv.conf", "is held", func(s *Snapshot) { s.Status.ResolvConf.Hold = "another tool writes it" }, Warn, "left alone: another tool writes it"},
	{"resolv.conf", "is fought over", func(s *Snapshot) {
		s.Status.ResolvConf.Hold = "vpn writes it"
		s.Status.Problems = []string{"/etc/resolv.conf is left alone: vpn writes it"}
	}, Fail, "left alone: vpn writes it|stop the tool that writes it, then run origin-dns-dispatcher apply"},
	{"resolv.conf", "is another's", func(s *Snapshot) { s.Host.State.ResolvConf = text("nameserver 192.0.2.53\n") }, Warn, "does not name this node, but 192.0.2.53"},
	{"resolv.conf", "is another's, as the admin wants", func(s *Snapshot) {
		s.Host.State.ResolvConf, s.Host.State.Config.ResolvConf = text("nameserver 192.0.2.53\n"), nodeconfig.ResolvConfNone
	}, OK, "not managed by node-dns"},

	{"networkmanager-conf", "says nothing", nil, OK, "leaves /etc/resolv.conf"},
	{"networkmanager-conf", "dns=none", func(s *Snapshot) {
		s.NMConf.DNS = nm.Setting{Value: "none", File: "/etc/NetworkManager/conf.d/99-origin.conf", Line: 2}
	}, Warn, "/etc/NetworkManager/conf.d/99-origin.conf:2 sets dns=none (openshift-ansible wrote it)|nmcli general reload"},
	{"networkmanager-conf", "rc-manager", rcManager("unmanaged"), Warn, "/etc/x.conf:3 sets rc-manager=unmanaged"},
	// This was reported for every value, and docs/howto/coexistence.md said the opposite.
	{"networkmanager-conf", "rc-manager=file", rcManager("file"), OK, "leaves /etc/resolv.conf"},
	{"networkmanager-conf", "rc-manager=symlink", rcManager("symlink"), OK, "leaves /etc/resolv.conf"},
	{"networkmanager-conf", "rc-manager=resolvconf", rcManager("resolvconf"), OK, "leaves /etc/resolv.conf"},
	{"networkmanager-conf", "rc-manager=netconfig", rcManager("netconfig"), OK, "leaves /etc/resolv.conf"},
	{"networkmanager-conf", "rc-manager=auto", rcManager("auto"), OK, "leaves /etc/resolv.conf"},
	{"networkmanager-conf", "in our place", func(s *Snapshot) { s.NMConf.Shadow = "/etc/NetworkManager/conf.d/90-node-dns.conf" }, Warn, "overrides node-dns's own"},
	{"networkmanager-conf", "unreadable", func(s *Snapshot) { s.NMConfErr = errors.New("reading: denied") }, Warn, "cannot be read: reading: denied"},

	{"writers", "none", nil, OK, "no other program is known"},
	{"writers", "OpenShift 4's", func(s *Snapshot) {
		s.Host.Units = map[string]migrate.Unit{"on-prem-resolv-prepender.path": {Load: "loaded", Active: "active", File: "enabled"}}
	}, Warn, "resolv-prepender|on-prem-resolv-prepender.path is active, enabled|node-dns migrate"},
	{"writers", "openresolv, which does not yet", func(s *Snapshot) {
		s.Host.Files["/run/resolvconf/interfaces/eth0.dhcp"] = text("nameserver 192.0.2.53\n")
	}, Warn, "openresolv overwrites /etc/resolv.conf when it gets nameservers from eth0.dhcp|resolv_conf="},
	{"writers", "openresolv, which was told otherwise", func(s *Snapshot) {
		s.Host.Files["/run/resolvconf/interfaces/eth0.dhcp"] = text("nameserver 192.0.2.53\n")
		s.Host.Files["/etc/resolvconf.conf"] = text("resolv_conf=/run/resolvconf/resolv.conf\n")
	}, OK, "no other program is known"},
	{"writers", "one that was found here", func(s *Snapshot) {
		s.Writers = []Finding{warn("netconfig writes it", "do not", "seen")}
	}, Warn, "netconfig writes it|seen|do not"},
	{"writers", "systemd-resolved is judged elsewhere", func(s *Snapshot) {
		s.Host.Units = map[string]migrate.Unit{resolvedUnit: {Load: "loaded", Active: "active", File: "enabled"}}
	}, OK, "no other program is known"},

	{"systemd-resolved", "is not there", nil, "", ""},
	{"systemd-resolved", "runs beside", func(s *Snapshot) { s.Units[resolvedUnit] = migrate.Unit{Load: "loaded", Active: "active"} }, OK, "does not point to it"},
	{"systemd-resolved", "has the file", func(s *Snapshot) {
		s.Units[resolvedUnit] = migrate.Unit{Load: "loaded", Active: "active"}
		s.Host.State.ResolvConf = hostdns.File{Exists: true, Link: "../run/systemd/resolve/stub-resolv.conf", Data: []byte("nameserver 127.0.0.53\n")}
	}, Warn, "do not use node-dns|resolvConf: resolved"},
	{"systemd-resolved", "has the file, and does not run", func(s *Snapshot) {
		s.Units[resolvedUnit] = migrate.Unit{Load: "loaded", Active: "inactive"}
		s.Host.State.ResolvConf = hostdns.File{Exists: true, Link: "/run/systemd/resolve/stub-resolv.conf"}
	}, Fail, "which is not running|systemctl start systemd-resolved"},
	{"systemd-resolved", "has the file, with the daemon down", func(s *Snapshot) { down(s); s.Host.State.ResolvConf = text("nameserver 127.0.0.53\n"); s.Units = nil }, OK, "stub"},

	{"nsswitch", "is well", nil, OK, "hosts: files dns myhostname"},
	{"nsswitch", "is not there", func(s *Snapshot) { s.NSSwitch = hostdns.File{} }, "", ""},
	{"nsswitch", "without dns", func(s *Snapshot) { s.NSSwitch = text("hosts: files myhostname\n") }, Fail, "ask no nameserver (hosts: files myhostname)"},
	{"nsswitch", "by systemd-resolved", func(s *Snapshot) {
		s.Units[resolvedUnit] = migrate.Unit{Active: "active"}
		s.NSSwitch = text("hosts:\tfiles resolve [!UNAVAIL=return] dns\n")
	}, Warn, "ask systemd-resolved before|hosts: files resolve dns"},
	{"nsswitch", "by systemd-resolved, which is not running", func(s *Snapshot) { s.NSSwitch = text("hosts: mymachines resolve [!UNAVAIL=return] dns") }, OK, "mymachines resolve dns"},
	{"nsswitch", "cannot be read", func(s *Snapshot) { s.NSSwitch = hostdns.File{Exists: true, Err: fs.ErrPermission} }, Warn, "cannot be read"},

	{"kubelet", "is well", nil, OK, "resolvConf=/etc/origin/node/resolv.conf (resolvConf /var/lib/kubelet/config.yaml:9): 192.0.2.53"},
	{"kubelet", "none", func(s *Snapshot) { s.Kubelet = Kubelet{} }, OK, "no kubelet"},
	{"kubelet", "takes nothing", func(s *Snapshot) { s.Kubelet.Path = "" }, "", ""},
	{"kubelet", "takes ours", func(s *Snapshot) {
		s.Kubelet = Kubelet{Configured: true, Path: "/etc/resolv.conf", File: s.Host.State.ResolvConf}
		s.Host.State.NodeResolvConf = text("nameserver 192.0.2.53\n")
	}, Fail, "/etc/resolv.conf names this node (10.0.0.7) instead of the original nameservers|point it at /etc/origin/node/resolv.conf, which|resolvConf in /var/lib/kubelet/config.yaml;|by its default"},
	{"kubelet", "takes one that is not ours, and names us", func(s *Snapshot) { s.Kubelet.File = text("nameserver 10.0.0.7\n") }, Fail, "names this node (10.0.0.7)|point it at a file with the nameservers that the network gave this node: resolvConf in"},
	{"kubelet", "takes ours, of another address of before", func(s *Snapshot) { s.Kubelet.File = text(ours + "nameserver 10.0.0.99\n") }, Fail, "names this node (10.0.0.99)"},
	{"kubelet", "is given the same twice", func(s *Snapshot) {
		s.Kubelet.File, s.Kubelet.DNS = text("nameserver 10.0.0.7\n"), []netip.Addr{netip.MustParseAddr(nodeIP)}
	}, Fail, "list this node twice"},
	{"kubelet", "takes the stub", func(s *Snapshot) { s.Kubelet.File = text("nameserver 127.0.0.53\n") }, Fail, "in a pod with dnsPolicy Default is the pod itself"},
	{"kubelet", "takes what is not there", func(s *Snapshot) { s.Kubelet.File = hostdns.File{} }, Fail, `no pod can start|run "origin-dns-dispatcher apply" to create it`},
	{"kubelet", "file without a nameserver", func(s *Snapshot) { s.Kubelet.File = text("search a\n") }, Warn, "lists no nameserver"},
	{"kubelet", "takes what may not be read", func(s *Snapshot) { s.Kubelet.File = hostdns.File{Exists: true, Err: fs.ErrPermission} }, Warn, "cannot be read"},

	{"upstreams", "are well", nil, OK, "upstream 192.0.2.53:53 answers over UDP (1ms), TCP and with EDNS 1232; a large answer arrives complete (1139 bytes)"},
	{"upstreams", "truncate", func(s *Snapshot) { s.Upstreams[0].Large.Truncated = true }, OK, "it truncates larger answers"},
	{"upstreams", "are the last good ones", func(s *Snapshot) {
		h := &s.Host.State
		h.NetworkManager = &nm.Snapshot{State: "connected"}
		h.Upstreams, h.Original = text("server=192.0.2.53\n"), hostdns.File{}
	}, Warn, "the network offers no usable nameserver since |(NetworkManager lists no nameserver); using the last good ones: 192.0.2.53|set upstreams: in /etc/node-dns/node-dns.yaml"},
	{"upstreams", "are the last good ones, as the admin's file has a typo", func(s *Snapshot) {
		s.Host.State.Record = text(`{"version": 1, "servers": ["192.0.2.53"], "origin": "/etc/resolv.conf", "lacking": "/etc/resolv.conf names x: not a nameserver's address"}`)
	}, Warn, "/etc/resolv.conf names no usable nameserver|write an /etc/resolv.conf with a nameserver that answers, or set upstreams:"},
	{"upstreams", "none", func(s *Snapshot) { s.Upstreams = nil }, Fail, "no upstream nameserver is known"},
	{"upstreams", "none, as all of them loop", func(s *Snapshot) {
		s.Upstreams, s.Status.Refused = nil, []control.Refused{{Server: "192.0.2.99:53", Why: nameserver.ComesBack}}
	}, "", ""},
	{"upstreams", "silent", func(s *Snapshot) {
		s.Upstreams[0] = Probe{Server: "192.0.2.53:53", Domains: []string{"."}, UDP: Answer{Err: errSilent}, EDNS: Answer{Err: errSilent}, TCP: Answer{Err: errSilent}}
	}, Fail, "does not answer over UDP: no answer within 2s|check 192.0.2.53, the route there (ip route get ADDRESS)"},
	{"upstreams", "silent over UDP alone", func(s *Snapshot) { s.Upstreams[0].UDP.Err, s.Upstreams[0].EDNS.Err = errSilent, errSilent }, Fail, "it answers over TCP"},
	{"upstreams", "one silent of two", func(s *Snapshot) {
		silent := Answer{Err: errSilent}
		s.Upstreams = append([]Probe{{Server: "192.0.2.54:53", Domains: []string{"."}, UDP: silent, EDNS: silent, TCP: silent}}, s.Upstreams...)
	}, Warn, "other nameservers answer instead"},
	{"upstreams", "no TCP", func(s *Snapshot) { s.Upstreams[0].TCP = Answer{Err: errSilent} }, Warn, "does not answer over TCP"},
	// The advice was to open firewalls, which cannot help.
	{"upstreams", "no EDNS", func(s *Snapshot) { s.Upstreams[0].EDNS.EDNS = false }, Warn, "does not support EDNS (RFC 6891): answers of more than 512 bytes need TCP\nnames still resolve; update that nameserver"},
	{"upstreams", "no EDNS and no TCP", func(s *Snapshot) {
		s.Upstreams[0].EDNS.EDNS, s.Upstreams[0].TCP.Err = false, unix.ECONNREFUSED
	}, Warn, "it does not support EDNS|it does not answer over TCP|allow TCP and UDP port 53 and datagrams of 1232 bytes in every firewall"},
	{"upstreams", "silent to EDNS", func(s *Snapshot) {
		s.Upstreams[0].UDP, s.Upstreams[0].EDNS = s.Upstreams[0].EDNS, Answer{Err: errSilent}
	}, Warn, "does not answer queries with EDNS"},
	{"upstreams", "loses large answers", func(s *Snapshot) { s.Upstreams[0].Large = Answer{Err: errSilent} }, Warn, "a large answer does not arrive over UDP"},
	{"upstreams", "lost large answers of the daemon's", func(s *Snapshot) { s.Status.Routes[0].Servers[0].UDPSize = 512 }, Warn, "answers of more than 512 bytes are lost over UDP and need TCP"},
	{"upstreams", "of a domain", func(s *Snapshot) { s.Upstreams[0].Domains, s.Upstreams[0].Large = []string{"corp.example."}, Answer{} }, OK, "upstream 192.0.2.53:53 (for corp.example.) answers over UDP (1ms), TCP and with EDNS 1232"},
	{"upstreams", "of several domains, for one of which there is no other", func(s *Snapshot) {
		silent := Answer{Err: errSilent}
		s.Upstreams = append(s.Upstreams, Probe{Server: "192.0.2.54:53", Domains: []string{".", "a.", "b.", "c.", "d."}, UDP: silent, EDNS: silent, TCP: silent})
	}, Fail, "upstream 192.0.2.54:53 (for ., a., b. and 2 more) does not answer"},
	{"upstreams", "refuses", func(s *Snapshot) { s.Upstreams[0].EDNS.Rcode = "REFUSED" }, Warn, "refuses the queries"},
	{"upstreams", "over TLS", func(s *Snapshot) { s.Upstreams[0].TLS = true }, OK, "answers over TLS"},
	{"upstreams", "not over TLS", func(s *Snapshot) {
		s.Upstreams[0].TLS, s.Upstreams[0].TCP.Err = true, errors.New("bad certificate")
	}, Fail, "does not answer over TLS: bad certificate"},

	{"loop", "none", nil, OK, "no query came back from 1 server"},
	{"loop", "not probed", down, "", ""},
	{"loop", "found", func(s *Snapshot) {
		s.Status.Refused = []control.Refused{{Server: "192.0.2.99:53", Why: nameserver.ComesBack}, {Server: nodeIP, Why: "this node"}}
	}, Fail, "192.0.2.99:53: queries sent there come back"},

	{"cluster", "is well", nil, OK, "names of cluster.local. are answered from the Kubernetes API: 12 services, 40 endpoints"},
	{"cluster", "is forwarded", func(s *Snapshot) {
		s.API, s.Status.Cluster.Resolver, s.Status.Cluster.Servers = API{}, nil, []string{"172.30.0.10:53"}
	}, OK, "are forwarded to 172.30.0.10:53"},
	{"cluster", "is nobody's", func(s *Snapshot) { s.API, s.Status.Cluster.Resolver = API{}, nil }, Warn, "answered SERVFAIL: the Kubernetes API is not watched"},
	{"cluster", "is not known", func(s *Snapshot) { s.API, s.Status.Cluster = API{}, control.Cluster{} }, Fail, "the cluster domain is unknown"},
	{"cluster", "is stale", resolver(control.Resolver{Phase: "stale", Services: 3, Error: "refused", Kubeconfig: "/k"}), Warn, "stale: refused; meanwhile names are answered from the last known state"},
	{"cluster", "was never read", resolver(control.Resolver{Phase: "connecting", Error: "refused"}), Fail, "connecting: refused; names of cluster.local. are answered SERVFAIL"},
	{"cluster", "is forbidden", resolver(control.Resolver{Phase: "forbidden", MissingRights: []string{"list pods"}}), Fail, "denied: list pods|cluster-role.yaml"},
	{"cluster", "the certificate has expired", func(s *Snapshot) { s.API.NotAfter = epoch.Add(-time.Hour) }, Fail, "expired at 2026-03-01T11:00:00Z"},
	{"cluster", "the certificate is to come", func(s *Snapshot) { s.API.NotBefore = epoch.Add(time.Hour) }, Fail, "is not valid before 2026-03-01T13:00:00Z, but this node's clock shows 2026-03-01T12:00:00Z|set the clock"},
	{"cluster", "the certificate ends soon", func(s *Snapshot) { s.API.NotAfter = epoch.Add(time.Hour) }, Warn, "expires at 2026-03-01T13:00:00Z"},
	{"cluster", "the kubeconfig makes no sense", func(s *Snapshot) { s.API.CertErr = errors.New("reading k: not handed over") }, Warn, "reading k"},
	{"cluster", "the API denies", func(s *Snapshot) { s.API.Missing = []string{"watch services"} }, Warn, "denied: watch services"},
	{"cluster", "the API is away", func(s *Snapshot) { s.API.Err = errors.New("connection refused") }, Warn, "this node cannot query the Kubernetes API: connection refused"},
	{"cluster", "the API's certificate is to come", func(s *Snapshot) {
		s.API.Err = fmt.Errorf("get: %w", x509.CertificateInvalidError{Reason: x509.Expired, Cert: &x509.Certificate{NotBefore: epoch.AddDate(1, 0, 0)}})
	}, Fail, "the certificate of the Kubernetes API is not valid before 2027-03-01T12:00:00Z|set the clock"},
	{"cluster", "the API's certificate has expired", func(s *Snapshot) {
		s.API.Err = x509.CertificateInvalidError{Reason: x509.Expired, Cert: &x509.Certificate{NotAfter: epoch.AddDate(-1, 0, 0)}}
	}, Fail, "expired at 2025-03-01T12:00:00Z"},

	{"clock", "is right", nil, OK, "synchronized"},
	{"clock", "is not known", func(s *Snapshot) { s.Clock = Clock{} }, OK, "the clock shows 2026"},
	{"clock", "is from before the program", func(s *Snapshot) { s.Now = time.Unix(0, 0) }, Fail, "the clock shows 1970-01-01T00:00:00Z, but this program was built later"},
	{"clock", "no time service", func(s *Snapshot) { s.Clock.Unsynced = true; delete(s.Units, "chronyd.service") }, Warn, "no known time service runs"},
	{"clock", "somebody tries to set it", func(s *Snapshot) { s.Clock.Unsynced = true }, Warn, "though chronyd.service runs"},

	{"group", "has no members", groups("node-dns:x:990:", "node-dns-admin:x:989:alice"), "", ""},
	{"group", "has members of an earlier version's", groups("node-dns:x:990:node-dns,alice", "node-dns-admin:x:989:"), Warn, "alice is in the group node-dns|gpasswd -a alice node-dns-admin && gpasswd -d alice node-dns"},
	{"group", "has a member whose name is shell syntax", groups("node-dns:x:990:DOM$x", "node-dns-admin:x:989:"), Warn, "gpasswd -a 'DOM$x' node-dns-admin && gpasswd -d 'DOM$x' node-dns"},
	{"group", "has a member who is an admin", groups("node-dns:x:990:alice", "node-dns-admin:x:989:bob,alice"), Warn, "which no longer gives access to the daemon\ngpasswd -d alice node-dns"},

	{"storage", "has room", nil, OK, "/var/lib/node-dns"},
	{"storage", "is not there", func(s *Snapshot) { s.Storage[0].Exists = false }, "", ""},
	{"storage", "may not be seen", func(s *Snapshot) { s.Storage[0].Err = fs.ErrPermission }, "", ""},
	{"storage", "is another's", func(s *Snapshot) { s.Storage[0].Owner = "daemon" }, Fail, "is owned by daemon, but root must write there"},
	{"storage", "is everybody's", func(s *Snapshot) { s.Storage[0].Mode = 0o777 }, Warn, "writable by all users"},
	{"storage", "read-only", func(s *Snapshot) { s.Storage[0].ReadOnly = true }, Fail, "on a read-only file system"},
	{"storage", "full", func(s *Snapshot) { s.Storage[0].Free = 4096 }, Fail, "is full: 4 KiB"},
	{"storage", "without inodes", func(s *Snapshot) { s.Storage[0].Inodes = 0 }, Fail, "0 inodes are free"},
	{"storage", "nearly full", func(s *Snapshot) { s.Storage[0].Free = 10 << 20 }, Warn, "is almost full: 10 MiB"},
	{"storage", "that counts no inodes", func(s *Snapshot) { s.Storage[0].Inodes, s.Storage[0].NoInodes = 0, true }, OK, "/var/lib/node-dns"},

	{"descriptors", "enough", nil, OK, "65536 files"},
	{"descriptors", "few", func(s *Snapshot) { s.Descriptors = 1024 }, Warn, "may open 1024 files, and 10000 waiting queries|LimitNOFILE=44000"},
	{"descriptors", "not known", func(s *Snapshot) { s.Descriptors = 0 }, "", ""},

	{"versions", "belong together", nil, OK, "node-dns 1.0.0, kernel 5.14.0-427.el9.x86_64, systemd 252.39-1, NetworkManager 1.42.4"},
	{"versions", "another daemon", func(s *Snapshot) { s.Status.Version = "0.9.0" }, Warn, "the running daemon is 0.9.0, but this program is 1.0.0|systemctl restart node-dns"},
	{"versions", "a daemon that was replaced", func(s *Snapshot) { s.Replaced = true }, Warn, "was replaced after the daemon started"},
	{"versions", "another hook", func(s *Snapshot) { s.Hook.Commit = "bbbb" }, Warn, "a different build (commit bbbb)"},
	{"versions", "no hook", func(s *Snapshot) { s.Hook.Err = fs.ErrNotExist }, Warn, "/usr/sbin/origin-dns-dispatcher is not installed"},
	{"versions", "no hook in a container", func(s *Snapshot) {
		s.Hook.Err, s.Systemd, s.Host.State.NetworkManager = fs.ErrNotExist, "", nil
	}, OK, "versions: node-dns"},
	{"versions", "a hook that is none", func(s *Snapshot) { s.Hook.Err = errors.New("not a Go executable") }, Warn, "cannot be read: not a Go executable"},
	{"versions", "RHEL 7's kernel", func(s *Snapshot) { s.Kernel = "3.10.0-1160.el7" }, Warn, "the kernel is 3.10.0-1160.el7, but node-dns requires 4.18 or later"},
	{"versions", "RHEL 7's systemd", func(s *Snapshot) { s.Systemd = "219-78.el7" }, Warn, "systemd is 219-78.el7, but node-dns requires 239"},
	{"versions", "an old NetworkManager", func(s *Snapshot) { s.Host.State.NetworkManager.Version = "1.18.8" }, Warn, "NetworkManager is 1.18.8, but node-dns requires 1.20"},
	{"versions", "the next", func(s *Snapshot) { s.Kernel, s.Systemd = "6.1", "v259~rc1" }, OK, "kernel 6.1"},

	{"look", "saw all", nil, "", ""},
	{"look", "did not", func(s *Snapshot) { s.Unseen, s.Host.Root = []string{"a: denied\nb"}, false }, Warn, "a: denied; b|run this as root"},
}

func TestChecks(t *testing.T) {
	seen := map[string]map[Level]bool{}
	for _, row := range slices.Concat(rows, selinuxRows, askedRows) {
		t.Run(row.check+" "+row.name, func(t *testing.T) {
			var changes []func(*Snapshot)
			if row.change != nil {
				changes = append(changes, row.change)
			}
			report := Diagnose(well(t, changes...))
			level, said := Level(""), ""
			for _, f := range report.Findings {
				if f.Check == row.check {
					level = worse(level, f.Level)
					said += strings.Join(append([]string{f.What, f.Fix}, f.Details...), "\n") + "\n"
				}
				if f.Level != OK && f.Fix == "" && f.Check != "networkmanager-conf" && f.Check != "node-address" && f.Check != "look" {
					t.Errorf("no fix for %q", f.What)
				}
			}
			if level != row.level {
				t.Errorf("got level %q, want %q:\n%s", level, row.level, said)
			}
			for part := range strings.SplitSeq(row.says, "|") {
				if !strings.Contains(said, part) {
					t.Errorf("missing %q in\n%s", part, said)
				}
			}
		})
		if seen[row.check] == nil {
			seen[row.check] = map[Level]bool{}
		}
		seen[row.check][row.level] = true
	}
	for _, c := range checks() {
		if len(seen[c.name]) < 2 {
			t.Errorf("%s is only tested with %v", c.name, slices.Collect(maps.Keys(seen[c.name])))
		}
	}
}

// groups sets the lines of /etc/group.
func groups(lines ...string) func(s *Snapshot) {
	return func(s *Snapshot) { s.Groups.Data = []byte(strings.Join(lines, "\n") + "\n") }
}

func worse(a, b Level) Level {
	order := []Level{"", OK, Warn, Fail}
	if slices.Index(order, a) > slices.Index(order, b) {
		return a
	}
	return b
}

// TestWell proves that every finding on a healthy node is [ok].
func TestWell(t *testing.T) {
	report := Diagnose(well(t))
	if report.Failures+report.Warnings > 0 {
		t.Errorf("got %+v", report.Findings)
	}
}

// TestLeftTo: the report says that another node-dns serves the node, for `kubectl node-dns doctor`.
func TestLeftTo(t *testing.T) {
	for _, other := range []string{"", "node-dns 0.9.0 at 10.0.0.7:53"} {
		if got := Diagnose(well(t, func(s *Snapshot) { s.Status.LeftTo = other })).LeftTo; got != other {
			t.Errorf("got %q, want %q", got, other)
		}
	}
	if got := Diagnose(well(t, down)).LeftTo; got != "" {
		t.Errorf("without a daemon: got %q", got)
	}
}

// TestText proves that output from the node cannot control the terminal and that the last line has
// the counts.
func TestText(t *testing.T) {
	report := Diagnose(well(t, func(s *Snapshot) {
		heldBy(7, "dns\x1b[2Jmasq", "dnsmasq.service", "udp")(s)
		s.Log = []string{"node-dns[7]: \x1b]0;title\x07 listening"}
		s.OldHooks = []Program{{Path: "/etc/NetworkManager/dispatcher.d/99-origin-dns.sh"}}
		s.SELinux.Mislabelled = []Mislabelled{{"/run/node-dns/\x1b[2J", "var_run_t", "node_dns_runtime_t"}}
	}))
	var out strings.Builder
	if err := report.WriteText(&out); err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "testdata/text.txt", out.String())
	var narrow strings.Builder
	if err := report.WriteText(termtext.Sheet{Writer: &narrow, Columns: 60}); err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "testdata/text-60.txt", narrow.String())
	report.Version = "1.0.0"
	text, err := json.MarshalIndent(report, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "testdata/report.json", string(text)+"\n") // which the tests of the Cockpit page (test/cockpit) read too
}
