package nspawn

import (
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/node-dns/node-dns/internal/test/dnstest"
	"github.com/node-dns/node-dns/internal/test/lab"
)

// Files from openshift-ansible on a node.
const (
	oldHookPath    = "/etc/NetworkManager/dispatcher.d/99-origin-dns.sh"
	oldSnippetPath = "/etc/NetworkManager/conf.d/99-origin.conf"
	oldBasePath    = "/etc/dnsmasq.d/origin-dns.conf"
	oldUpstreams   = "/etc/dnsmasq.d/origin-upstream-dns.conf"
)

// oldNode is an OpenShift 3 node with node-dns installed but not in use. The test itself simulates
// the nameservers of the site, of slow.example and of the cluster.
type oldNode struct {
	*node
	site, slow, cluster *dnstest.Server
}

// clusterService is the address of the Service of the cluster's own nameserver.
const clusterService = "10.77.0.62"

// dnsmasqWith is dnsmasq's setup on an old node.
type dnsmasqWith struct {
	base string // origin-dns.conf
	hook bool   // OpenShift's hook and dns=none; otherwise an admin has written resolv.conf
	text string // resolv.conf without the hook
}

// openshiftBase is openshift-ansible's configuration plus the servers that the node process sets
// over D-Bus.
const openshiftBase = lab.OldDnsmasqConfig + "server=/cluster.local/" + clusterService + "\nserver=/slow.example/" + loadSlow + "\n"

func newOldNode(t *testing.T, with dnsmasqWith) *oldNode {
	t.Helper()
	lab.Need(t, "dnsmasq", "nft")
	n := newNode(t)
	o := &oldNode{node: n}
	o.serveLAN()
	if err := os.Remove(n.Path("/etc/systemd/system/dnsmasq.service")); err != nil {
		t.Fatal(err)
	}
	n.WriteFile(unitFiles+"dnsmasq.service", lab.DnsmasqService, 0o644)
	// dnsmasq starts a process for each TCP query. On a busy machine it waited for the CPU, its
	// socket overflowed, and queries were lost that no migration had lost. Nice= has no effect,
	// because the kernel groups processes by session (sched(7), autogroup).
	n.WriteFile(unitFiles+"dnsmasq.service.d/first.conf", "[Service]\nCPUSchedulingPolicy=rr\n", 0o644)
	n.WriteFile("/etc/dnsmasq.conf", "conf-dir=/etc/dnsmasq.d\n", 0o644)
	n.WriteFile(oldBasePath, with.base, 0o644)
	n.Enable("dnsmasq.service", "NetworkManager-dispatcher.service")
	if with.hook {
		n.WriteFile(oldHookPath, lab.OldHook, 0o755)
		n.WriteFile(oldSnippetPath, "[main]\ndns=none\n", 0o644)
		n.WriteFile("/etc/origin/node/node-config.yaml", lab.OldNodeConfig, 0o600)
		n.WriteFile(resolvConf, "# of the installation\nsearch example.com\noptions timeout:3\nnameserver "+loadSite+"\n", 0o644)
	} else {
		n.WriteFile("/etc/NetworkManager/conf.d/dns.conf", "[main]\nrc-manager=unmanaged\n", 0o644)
		n.WriteFile(resolvConf, with.text, 0o640)
	}
	n.boot()
	if with.hook {
		n.Await("the old hook", func() bool { return strings.Contains(n.ReadFile(resolvConf), "nameserver "+nodeIP) })
	}
	n.Await("dnsmasq", func() bool { return n.answeredBy() == "dnsmasq" })
	n.awaitQuietEvents()
	return o
}

func (o *oldNode) serveLAN() {
	o.t.Helper()
	o.l.Veth("site0", o.lan, "site1")
	o.lan.Run("ip", "link", "set", "site1", "master", "lan0")
	o.l.Addr("site0", loadSite+"/24", loadSlow+"/24", clusterService+"/24")
	o.l.Veth("load0", o.pods, "load1")
	o.pods.Run("ip", "link", "set", "load1", "master", "pod0")
	for _, pod := range loadPods() {
		o.l.Addr("load0", pod.String()+"/24")
	}
	o.l.Run("ip", "route", "add", nodeIP+"/32", "via", podGateway)
	start := func(addr, records string) *dnstest.Server {
		s, err := dnstest.StartAt(netip.AddrPortFrom(netip.MustParseAddr(addr), 53), records)
		if err != nil {
			o.t.Fatal(err)
		}
		o.t.Cleanup(s.Close)
		return s
	}
	o.site = start(loadSite, dnstest.MixedSite)
	o.slow = start(loadSlow, dnstest.MixedSlow)
	o.slow.SetFaults(dnstest.Faults{Delay: 200 * time.Millisecond})
	o.cluster = start(clusterService, "web.shop.svc.cluster.local. 30 IN A "+dnstest.MixedService+"\nkubernetes.default.svc.cluster.local. 30 IN A 172.30.0.1\n")
	o.dhcp.SetNameservers(loadSite)
}

// answeredBy returns the name of the program that answers the node's own queries at its address.
func (n *node) answeredBy() string {
	out, _ := n.Try("dig", "+short", "+tries=1", "+timeout=1", "@"+nodeIP, "version.bind", "CH", "TXT")
	name, _, _ := strings.Cut(strings.Trim(strings.TrimSpace(out), `"`), "-2")
	name, _, _ = strings.Cut(name, " ")
	return name
}

// awaitQuietEvents waits until no hook has run for 2 s. Each hook is a process next to
// nm-dispatcher, which itself stays for another 10 s.
func (n *node) awaitQuietEvents() {
	n.t.Helper()
	n.Await("the hooks to end", func() bool {
		for range 20 {
			procs, _ := n.Try("cat", "/sys/fs/cgroup/system.slice/NetworkManager-dispatcher.service/cgroup.procs") // fails if the unit has ended
			if strings.Count(procs, "\n") > 1 {
				return false
			}
			time.Sleep(100 * time.Millisecond)
		}
		return true
	})
}

// during sends queries while happens runs, as in the other tests under load, but one in ten over
// TCP. The node's own processes also resolve names through resolv.conf all the time.
func (o *oldNode) during(rate int, happens func()) {
	o.t.Helper()
	asks := dnstest.Mixed()
	for i := range asks {
		asks[i].TCP = asks[i].TCP || i%10 == 5
	}
	loading, err := dnstest.Load{Server: netip.MustParseAddrPort(nodeIP + ":53"), Rate: rate, Asks: asks, Clients: loadPods(), Patience: loadPatience}.Start()
	if err != nil {
		o.t.Fatal(err)
	}
	o.Run("systemd-run", "--quiet", "--unit=libc.service", "--description=libc", "sh", "-c", libcLoop)
	time.Sleep(500 * time.Millisecond)
	happens()
	time.Sleep(500 * time.Millisecond)
	o.Run("systemctl", "stop", "libc.service")
	tally := loading.Stop()
	log := o.Journal("--unit=libc.service", "--output=cat", "--since=-1min")
	o.t.Logf("%d a second: %v; %d through libc", rate, tally, strings.Count(log, "resolved"))
	if tally.Lost > 0 || tally.Wrong > 0 {
		o.t.Errorf("got %d lost queries and %d wrong answers", tally.Lost, tally.Wrong)
	}
	if strings.Contains(log, "FAILED") || !strings.Contains(log, "resolved") {
		o.t.Errorf("some lookups through resolv.conf failed:\n%s", log)
	}
}

// libcLoop resolves uncached names of the cluster and of the site through resolv.conf.
const libcLoop = `i=0
while :; do
	i=$((i + 1))
	for name in web.shop.svc.cluster.local. libc$i.example.; do
		if getent ahostsv4 $name >/dev/null; then echo resolved; else echo "FAILED $name $(cat /etc/resolv.conf)"; fi
	done
	sleep 0.02
done`

// checkEtc: /etc is as before, byte for byte, including modes and owners.
func (o *oldNode) checkEtc(before map[string]string) {
	o.t.Helper()
	o.checkTree(before, slices.DeleteFunc(names(before, o.tree()), func(name string) bool { return strings.HasPrefix(name, "/etc") })...)
}

// names returns the paths of all trees.
func names(trees ...map[string]string) []string {
	var all []string
	for _, tree := range trees {
		for name := range tree {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// copySelf copies this test's program into the machine. It can be told to end at a moment: see
// dieEnv.
func (o *oldNode) copySelf() string {
	o.t.Helper()
	self, err := filepath.EvalSymlinks("/proc/self/exe")
	if err != nil {
		o.t.Fatal(err)
	}
	const program = "/usr/local/sbin/migrate-and-die"
	o.CopyFile(program, self, 0o755)
	return program
}
