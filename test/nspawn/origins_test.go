package nspawn

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// origin is a node with another DNS setup, and with node-dns installed but not in use.
type origin struct {
	name   string
	set    func(n *node)
	says   []string      // expected strings in the dry run
	serves func(n *node) // checks that pods get answers; nil means by ns1
	// stub: resolv.conf stays systemd-resolved's, which queries node-dns. It does not answer while
	// it restarts for that.
	stub bool
}

// origins returns the setups that can be migrated on the node itself.
func origins() []origin {
	return []origin{
		{
			name: "systemd-resolved", set: (*node).setResolved,
			says: []string{"systemd-resolved: ", "/etc/resolv.conf is a link to ../run/systemd/resolve/stub-resolv.conf", "continues on 127.0.0.53 unchanged"},
		},
		{
			name: "systemd-resolved that will query node-dns", set: func(n *node) {
				n.setResolved()
				n.WriteFile(nodeDNSFile, "resolvConf: resolved\n", 0o644)
			},
			says: []string{"make systemd-resolved ask this node"}, stub: true,
			serves: func(n *node) {
				n.Await("the drop-in", func() bool { return n.exists(dropIn) })
				n.awaitNames()
				n.Await("a pod to be answered", func() bool { return n.ask() == ns1 })
			},
		},
		{
			name: "openresolv", set: (*node).setOpenresolv,
			says:   []string{"openresolv, which writes /etc/resolv.conf", "it got nameservers from NetworkManager", "make /etc/resolv.conf a link to /run/resolvconf/resolv.conf"},
			serves: (*node).checkRedirected,
		},
		{
			name: "openresolv alone", set: (*node).setOpenresolvAlone,
			says:   []string{"it got nameservers from eth0", "write /etc/dnsmasq.d/node-dns-resolvconf.conf"},
			serves: (*node).checkFollowed,
		},
		{
			name: "Debian's resolvconf", set: func(n *node) {
				n.Install("resolvconf")
				n.Run("systemctl", "restart", "NetworkManager.service")
				n.awaitNames()
			},
			says: []string{"resolvconf; /etc/resolv.conf is a link to its file", "links to ../run/resolvconf/resolv.conf"},
		},
		{
			name: "cloud-init", set: func(n *node) { n.setCloudInit("{}") },
			says: []string{"/etc/NetworkManager/conf.d/99-cloud-init.conf keeps NetworkManager from writing it", "ask " + ns2 + " (from /etc/resolv.conf Created by cloud-init"},
			serves: func(n *node) {
				n.Await("a pod to be answered by cloud-init's nameserver", func() bool { return n.ask() == ns2 })
			},
		},
		{
			name: "cloud-init that manages resolv.conf", set: func(n *node) {
				n.setCloudInit("manage_resolv_conf: true\nresolv_conf: {nameservers: [" + ns1 + "]}")
			},
			says:   []string{"/etc/cloud/cloud.cfg.d/50_dns.cfg sets manage_resolv_conf: true", "write /etc/cloud/cloud.cfg.d/zz-node-dns.cfg"},
			serves: (*node).checkCloudLeavesAlone,
		},
		{
			name: "forcedns by hand", set: (*node).setForcedns,
			says: []string{"single-node: forcedns with dnsmasq", "move /etc/NetworkManager/dispatcher.d/forcedns aside", "single-node.conf (rc-manager=unmanaged) aside"},
			serves: func(n *node) {
				n.Await("the cluster's own name", func() bool {
					out, _ := n.Try("dig", "+short", "+tries=1", "+timeout=1", "@"+nodeIP, "api-int.sno.example.com")
					return strings.TrimSpace(out) == "192.0.2.80"
				})
			},
		},
		{
			name: "NodeLocal DNSCache, left", set: func(n *node) {
				n.setNodelocal()
				n.Run("systemctl", "kill", "--signal=KILL", nodelocalUnit) // nothing that it set up is removed
				n.Await("the cache to end", func() bool { return n.property(nodelocalUnit, "ActiveState") != "active" })
			},
			says:   []string{"leftovers of NodeLocal DNSCache", "remove " + cacheService + " from the link nodelocaldns, with its 12 iptables rules", "listen on " + cacheAddr},
			serves: (*node).checkTakenOver,
		},
		{
			name: "NodeLocal DNSCache, left, with an API", set: func(n *node) {
				n.setNodelocal()
				n.startAPI()
				n.WriteFile("/etc/node-dns/kubeconfig", kubeconfig, 0o644)
				n.Run("systemctl", "kill", "--signal=KILL", nodelocalUnit)
				n.Await("the cache to end", func() bool { return n.property(nodelocalUnit, "ActiveState") != "active" })
			},
			says:   []string{"remove " + cacheAddr + " from the link nodelocaldns, with its 12 iptables rules", "intercept: [clusterDNS, " + cacheAddr + "]"},
			serves: (*node).checkTakenOver,
		},
	}
}

// mayDiffer matches what may differ after node-dns was in use: the source of the upstreams
// (NetworkManager, which may have restarted just now, its file, or an earlier run), and a second
// listen address. While eth0 is being activated again, the pods' link has the node's only address,
// and resolv.conf may have named that for a moment. Pods with that address then keep getting
// answers.
var mayDiffer = regexp.MustCompile(`\(from [^)]*\)*|, ` + regexp.QuoteMeta(podGateway))

// TestMigrateFrom: each setup, as the real software leaves it, is migrated to node-dns and back. A
// program of the node that resolves names like libc always gets an answer. Afterwards the node's
// files are as before.
func TestMigrateFrom(t *testing.T) {
	for _, o := range origins() {
		t.Run(o.name, func(t *testing.T) {
			n := newLeasedNode(t)
			o.set(n)
			before, links := n.etc(), n.links()
			screen := n.Run("node-dns", "migrate")
			for _, want := range o.says {
				if !strings.Contains(screen, want) {
					t.Errorf("the dry run's output lacks %q:\n%s", want, screen)
				}
			}
			n.checkEtcAs(before)

			asking := n.whileAsking
			if o.stub {
				asking = func(happens func()) { happens() }
			}
			asking(func() { n.Run("node-dns", "migrate", "--apply") })
			n.Run("systemctl", "is-enabled", "--quiet", "node-dns.service")
			if !o.stub {
				n.awaitNamed()
			}
			if o.serves != nil {
				o.serves(n)
			} else {
				n.Await("a pod to be answered", func() bool { return n.ask() == ns1 })
			}

			asking(func() { n.Run("node-dns", "migrate", "--undo") })
			n.checkEtcAs(before)
			if d := cmp.Diff(links, n.links()); d != "" {
				t.Errorf("links and rules (-before +after):\n%s", d)
			}
			if again := n.Run("node-dns", "migrate"); mayDiffer.ReplaceAllString(again, "") != mayDiffer.ReplaceAllString(screen, "") {
				t.Errorf("after the way back the dry run prints\n%s, want\n%s", again, screen)
			}
		})
	}
}

// TestMigrateLeavesToTheCluster: for a setup that the cluster manages, migrate prints what to do
// there, and changes nothing.
func TestMigrateLeavesToTheCluster(t *testing.T) {
	for _, o := range []origin{
		{name: "resolv-prepender", set: (*node).setPrepender, says: []string{
			"on-prem-resolv-prepender.path is active, enabled", "coredns of ", "uses port 53", "it answers api-int.ocp.example.com with 192.0.2.80",
			"kind: MachineConfig", "on-prem-resolv-prepender.path, enabled: false, mask: true",
		}},
		{name: "forcedns", set: (*node).setSingleNode, says: []string{
			"single-node: forcedns with dnsmasq", "rc-manager=unmanaged", "kind: MachineConfig", "dnsmasq.service, enabled: false, mask: true",
		}},
		{name: "global DNS", set: (*node).setGlobalDNS, says: []string{
			"/etc/NetworkManager/conf.d/dns-servers.conf sets nameservers for all domains", "/etc/kubernetes/manifests/coredns.yaml is a static pod", "kind: MachineConfig",
		}},
		{name: "NodeLocal DNSCache", set: (*node).setNodelocal, says: []string{
			"node-cache of " + nodelocalUnit + " uses port 53 of " + cacheAddr, "with 12 iptables rules", "kubectl -n kube-system patch daemonset",
		}},
	} {
		t.Run(o.name, func(t *testing.T) {
			n := newLeasedNode(t)
			o.set(n)
			before, links := n.etc(), n.links()
			for _, flag := range []string{"--dry-run", "--apply"} {
				screen, err := n.Try("node-dns", "migrate", flag)
				if err == nil || !strings.Contains(screen, "It cannot start:") {
					t.Errorf("%s: got %v\n%s", flag, err, screen)
				}
				for _, want := range o.says {
					if !strings.Contains(screen, want) {
						t.Errorf("the output of %s lacks %q:\n%s", flag, want, screen)
					}
				}
			}
			n.checkEtcAs(before)
			if d := cmp.Diff(links, n.links()); d != "" {
				t.Errorf("links and rules (-before +after):\n%s", d)
			}
			if n.exists("/var/lib/node-dns") || n.property("node-dns.service", "ActiveState") != "inactive" {
				t.Error("a migration was begun")
			}
		})
	}
}

// TestNodelocalByItsOwner follows the printed steps for a cluster with NodeLocal DNSCache. Pods
// that use the cache get answers until they are gone, and new pods that use the node get answers
// from then on.
func TestNodelocalByItsOwner(t *testing.T) {
	n := newLeasedNode(t)
	n.setNodelocal()
	n.whilePodAsks(cacheAddr, func() {
		n.WriteFile("/etc/node-dns/node-dns.yaml", "listen: ["+nodeIP+"]\nclusterDNS: ["+cacheService+"]\n", 0o644)
		n.Run("systemctl", "enable", "--now", "node-dns.service")
		n.awaitServing()
		n.WriteFile(kubeletConfig, strings.ReplaceAll(n.ReadFile(kubeletConfig), cacheAddr, nodeIP), 0o644)
		n.awaitServing()
	})
	if screen, err := n.Try("node-dns", "migrate"); err == nil || strings.Contains(screen, "systemctl enable --now node-dns") || strings.Contains(screen, "kubectl drain") {
		t.Errorf("a completed step is printed again: %v\n%s", err, screen)
	}
	n.whilePodAsks(nodeIP, func() {
		n.Run("systemctl", "stop", nodelocalUnit) // removes what it set up
		n.awaitServing()
	})
	if screen := n.Run("node-dns", "migrate"); screen != "Found no DNS setup to migrate from.\n" {
		t.Errorf("afterwards the dry run prints\n%s", screen)
	}
}

// TestNodelocalIntercepted follows the printed steps for a cluster with NodeLocal DNSCache where
// the node has a kubeconfig. Pods keep the cache's address. They get an answer to each query while
// node-dns comes, the cache leaves and returns, and node-dns goes.
func TestNodelocalIntercepted(t *testing.T) {
	n := newLeasedNode(t)
	n.setNodelocal()
	n.startAPI()
	n.WriteFile("/etc/node-dns/kubeconfig", kubeconfig, 0o644)
	// Without the state and the IPv6 address of a new bridge, which change in its first second.
	links := func() string {
		return n.Run("sh", "-c", `ip -4 -oneline address show | sed 's/^[0-9]*: //; s/ *valid_lft.*//'; iptables-save | sed '/^[#:]/d'`)
	}
	before, had := n.etc(), links()
	answers := func(when string, isOurs bool) {
		t.Helper()
		for _, addr := range []string{cacheAddr, cacheService} {
			for _, flag := range []string{"+notcp", "+tcp"} {
				// Only node-dns knows this name.
				if out := n.pods.Run("dig", flag, "+short", "+tries=1", "+timeout=2", "@"+addr, clusterName+".cluster.local"); (out == byNodeDNS) != isOurs {
					t.Errorf("%s, %s with %s answers %q", when, addr, flag, out)
				}
			}
		}
	}
	const command = "kubectl label node"
	n.whilePodAsks(cacheAddr, func() {
		if screen := n.Run("node-dns", "migrate", "--apply"); !strings.Contains(screen, command) {
			t.Errorf("--apply prints no command for the cluster:\n%s", screen)
		}
		n.awaitPointed()
		answers("after --apply", false)
		if screen := n.Run("node-dns", "migrate"); !strings.Contains(screen, command) {
			t.Errorf("after --apply, migrate prints no command for the cluster:\n%s", screen)
		}
		if status := n.status(); !strings.Contains(status, cacheAddr+" answered by NodeLocal DNSCache until it leaves this node") {
			t.Errorf("got the status\n%s", status)
		}
		n.Run("systemctl", "stop", nodelocalUnit)
		answers("without the cache", true)
		n.Await("the interception", func() bool { return strings.Contains(n.status(), cacheAddr+" intercepted for") })
		answers("on node-dns's own link", true)
		if screen := n.Run("node-dns", "migrate"); strings.Contains(screen, command) {
			t.Errorf("a completed step is printed again:\n%s", screen)
		}
		n.Run("systemctl", "start", nodelocalUnit)
		answers("after the cache's return", false)
		n.Run("node-dns", "migrate", "--undo")
		answers("after --undo", false)
	})
	n.checkEtcAs(before)
	if d := cmp.Diff(had, links()); d != "" {
		t.Errorf("links and rules (-before +after):\n%s", d)
	}
}

// etc returns the files of the admin, and of the programs that maintain resolv.conf.
func (n *node) etc() map[string]string {
	n.t.Helper()
	files := n.tree()
	for name := range files {
		if !strings.HasPrefix(name, "/etc/") && !strings.HasPrefix(name, "/run/resolvconf") {
			delete(files, name)
		}
	}
	return files
}

func (n *node) checkEtcAs(before map[string]string) {
	n.t.Helper()
	if d := cmp.Diff(before, n.etc()); d != "" {
		n.t.Errorf("files (-before +after):\n%s", d)
	}
}

// links returns addresses and, with iptables, rules, without values that change by themselves. The
// order of a link's addresses has no meaning.
func (n *node) links() string {
	n.t.Helper()
	var out string
	for line := range strings.Lines(n.Run("ip", "-brief", "address", "show")) {
		fields := strings.Fields(line)
		slices.Sort(fields[min(2, len(fields)):])
		out += strings.Join(fields, " ") + "\n"
	}
	if _, err := os.Stat(n.Path("/usr/sbin/iptables-save")); err == nil {
		out += n.Run("sh", "-c", "iptables-save | sed '/^[#:]/d'")
	}
	return out
}

// awaitNames waits until libc gets an answer.
func (n *node) awaitNames() {
	n.t.Helper()
	n.Await("names to resolve", func() bool { return n.libc() == "192.0.2.1" })
}

// awaitNamed waits until resolv.conf names only the node, at any of its addresses.
func (n *node) awaitNamed() {
	n.t.Helper()
	n.Await("resolv.conf to name the node alone", func() bool {
		text := "\n" + n.ReadFile(resolvConf)
		named := strings.Contains(text, "\nnameserver "+nodeIP+"\n") || strings.Contains(text, "\nnameserver "+cacheAddr+"\n")
		return named && strings.Count(text, "\nnameserver ") == 1
	})
	n.awaitNames()
}

// whileAsking makes a program of the node look up a name repeatedly while happens runs. Each lookup
// must succeed.
func (n *node) whileAsking(happens func()) {
	n.t.Helper()
	const stop = "/run/stop-asking"
	const loop = `while [ ! -e ` + stop + ` ]; do
		case $(getent ahostsv4 www.up.example) in 192.0.2.1*) echo asked ;; *) echo LOST; cat /etc/resolv.conf ;; esac
		sleep 0.01
	done`
	asking := n.Start("sh", "-c", loop)
	n.Await("the first answer", func() bool { return strings.Contains(asking.Output(), "asked\n") })
	happens()
	asked := strings.Count(asking.Output(), "asked\n")
	n.Await("answers afterwards", func() bool { return strings.Count(asking.Output(), "asked\n") > asked+10 })
	n.WriteFile(stop, "", 0o644)
	n.Await("it to end", func() bool { return !asking.Running() })
	n.Run("rm", stop)
	n.t.Logf("%d lookups", strings.Count(asking.Output(), "asked\n"))
	if strings.Contains(asking.Output(), "LOST") {
		n.t.Errorf("got %d lost lookups:\n%s", strings.Count(asking.Output(), "LOST"), asking.Output())
	}
}

// whilePodAsks makes a pod query an address repeatedly while happens runs. Each query must get an
// answer.
func (n *node) whilePodAsks(addr string, happens func()) {
	n.t.Helper()
	n.whileAnswered("queries to "+addr, func() (out string, answered bool) {
		out, err := n.pods.Try("dig", "+short", "+tries=1", "+timeout=2", "@"+addr, "who.test", "TXT")
		return out, err == nil && strings.Contains(out, ns1)
	}, happens)
}

// whileAnswered calls ask repeatedly while happens runs. Each query must get an answer.
func (n *node) whileAnswered(what string, ask func() (out string, answered bool), happens func()) {
	n.t.Helper()
	done, lost := make(chan bool), make(chan []string)
	go func() {
		var failed []string
		asked := 0
		for running := true; running; asked++ {
			if out, answered := ask(); !answered {
				failed = append(failed, out)
			}
			select {
			case <-done:
				running = false
			default:
			}
		}
		n.t.Logf("%s: %d", what, asked)
		lost <- failed
	}()
	happens()
	close(done)
	if failed := <-lost; len(failed) > 0 {
		n.t.Errorf("%s: %d were lost:\n%s", what, len(failed), strings.Join(slices.Compact(failed), "\n"))
	}
}

// TestMigrateKubelet: with --kubelet, migrate sets the kubelet's resolvConf in the file that it
// reads, and --undo reverts that.
func TestMigrateKubelet(t *testing.T) {
	n := newLeasedNode(t)
	n.WriteFile(kubeletConfig, "kind: KubeletConfiguration\napiVersion: kubelet.config.k8s.io/v1beta1\nclusterDNS: ["+nodeIP+"]\n", 0o600)
	before := n.etc()
	if screen := n.Run("node-dns", "migrate"); screen != "Found no DNS setup to migrate from.\n" {
		t.Errorf("without --kubelet:\n%s", screen)
	}
	screen := n.Run("node-dns", "migrate", "--kubelet")
	for _, want := range []string{"a kubelet whose resolvConf is /etc/resolv.conf, its default", "write " + kubeletConfig, "restart the kubelet at a suitable time"} {
		if !strings.Contains(screen, want) {
			t.Errorf("the dry run's output lacks %q:\n%s", want, screen)
		}
	}
	config := n.ReadFile(kubeletConfig)
	n.Run("node-dns", "migrate", "--kubelet", "--apply")
	if got := n.ReadFile(kubeletConfig); got != config+"resolvConf: /etc/origin/node/resolv.conf\n" {
		t.Errorf("got the kubelet's file\n%s", got)
	}
	if got := n.ReadFile("/etc/origin/node/resolv.conf"); !strings.Contains(got, "nameserver "+ns1+"\n") || !strings.Contains(got, "search ") {
		t.Errorf("got the file that it names\n%s", got)
	}
	if got := n.Run("stat", "-c", "%a", kubeletConfig); got != "600\n" {
		t.Errorf("got the mode %s", got)
	}
	if screen := n.Run("node-dns", "migrate", "--undo"); !strings.Contains(screen, "restart the kubelet before you remove it") {
		t.Errorf("the output of --undo does not say that the kubelet must be restarted:\n%s", screen)
	}
	if got := n.ReadFile(kubeletConfig); got != config {
		t.Errorf("after --undo the kubelet's file is\n%s", got)
	}
	if got := n.ReadFile("/etc/origin/node/resolv.conf"); !strings.HasPrefix(got, "# kept by node-dns migrate --undo") || !strings.Contains(got, "nameserver "+ns1+"\n") {
		t.Errorf("after --undo a kubelet that was restarted in between reads\n%s", got)
	}
	n.Run("rm", "--recursive", "/etc/origin")
	n.checkEtcAs(before)
}
