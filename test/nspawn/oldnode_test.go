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

// What a node has from openshift-ansible.
const (
	oldHookPath    = "/etc/NetworkManager/dispatcher.d/99-origin-dns.sh"
	oldSnippetPath = "/etc/NetworkManager/conf.d/99-origin.conf"
	oldBasePath    = "/etc/dnsmasq.d/origin-dns.conf"
	oldUpstreams   = "/etc/dnsmasq.d/origin-upstream-dns.conf"
)

// oldNode is a node of OpenShift 3 that has node-dns installed and not in use. The nameservers of the site, of slow.example
// and of the cluster are the test's own.
type oldNode struct {
	*node
	site, slow, cluster *dnstest.Server
}

// loadCluster53 is where the cluster's own nameserver is: the address of its Service.
const clusterService = "10.77.0.62"

// dnsmasqWith is how dnsmasq is set up on an old node.
type dnsmasqWith struct {
	base string // origin-dns.conf
	hook bool   // OpenShift's hook and dns=none; without, an admin has set resolv.conf
	text string // resolv.conf, without the hook
}

// openshiftBase is openshift-ansible's, with the servers that the node process sets over D-Bus there.
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

// serveLAN starts the nameservers.
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

// answeredBy is who answers a question of the node itself at its address.
func (n *node) answeredBy() string {
	out, _ := n.Try("dig", "+short", "+tries=1", "+timeout=1", "@"+nodeIP, "version.bind", "CH", "TXT")
	name, _, _ := strings.Cut(strings.Trim(strings.TrimSpace(out), `"`), "-2")
	name, _, _ = strings.Cut(name, " ")
	return name
}

// awaitQuietEvents waits until no hook has run for 2 s: each is a process beside nm-dispatcher, which itself stays for 10 s more.
func (n *node) awaitQuietEvents() {
	n.t.Helper()
	n.Await("the hooks to end", func() bool {
		for range 20 {
			procs, _ := n.Try("cat", "/sys/fs/cgroup/system.slice/NetworkManager-dispatcher.service/cgroup.procs") // none: it has ended
			if strings.Count(procs, "\n") > 1 {
				return false
			}
			time.Sleep(100 * time.Millisecond)
		}
		return true
	})
}

// during asks while something happens, as in the other tests under load, one question in ten over TCP; and the node's own
// processes ask by resolv.conf all the time.
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
	o.t.Logf("%d a second: %v; by libc %d", rate, tally, strings.Count(log, "resolved"))
	if tally.Lost > 0 || tally.Wrong > 0 {
		o.t.Errorf("%d lost and %d wrong", tally.Lost, tally.Wrong)
	}
	if strings.Contains(log, "FAILED") || !strings.Contains(log, "resolved") {
		o.t.Errorf("by resolv.conf names do not resolve all the time:\n%s", log)
	}
}

// libcLoop resolves a name of the cluster and one of the site, which nobody remembers, by resolv.conf.
const libcLoop = `i=0
while :; do
	i=$((i + 1))
	for name in web.shop.svc.cluster.local. libc$i.example.; do
		if getent ahostsv4 $name >/dev/null; then echo resolved; else echo "FAILED $name $(cat /etc/resolv.conf)"; fi
	done
	sleep 0.02
done`

// checkEtc: /etc is as it was, byte for byte, with modes and owners.
func (o *oldNode) checkEtc(before map[string]string) {
	o.t.Helper()
	o.checkTree(before, slices.DeleteFunc(names(before, o.tree()), func(name string) bool { return strings.HasPrefix(name, "/etc") })...)
}

// names are those of both trees.
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

// copySelf puts this test's program into the machine, which can be told to end at a moment: see dieAt.
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
