package nspawn

import (
	"encoding/json"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/admin/doctor"
	"github.com/node-dns/node-dns/internal/test/dnstest"
	"github.com/node-dns/node-dns/internal/test/rpmbuild"
)

const (
	serviceDNS = "10.96.0.10"    // the address of the cluster's DNS Service
	podDNS     = "10.77.0.80"    // the cluster's DNS pod
	byNodeDNS  = "172.30.0.80\n" // web.shop.svc, by node-dns
	byPodDNS   = "192.0.2.99\n"  // the same name, by the cluster's DNS pod
)

// serveService makes the cluster's DNS pod answer at the Service's address, with the rules of
// kube-proxy.
func (n *node) serveService() {
	n.t.Helper()
	n.lan.Run("ip", "addr", "add", podDNS+"/24", "dev", "lan0")
	n.lan.Run("ip", "route", "add", podIP+"/32", "via", nodeIP)
	n.lan.Start("dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--user=root", "--pid-file", "--log-facility=-", "--no-resolv", "--no-hosts",
		"--bind-interfaces", "--listen-address="+podDNS, "--address=/"+clusterName+".cluster.local/"+strings.TrimSpace(byPodDNS))
	n.Run("sysctl", "-w", "net.ipv4.ip_forward=1")
	n.Run("nft", `table ip kube-proxy {
		chain services { type nat hook prerouting priority dstnat; ip daddr `+serviceDNS+` meta l4proto { tcp, udp } th dport 53 dnat to `+podDNS+`; }
		chain local { type nat hook output priority -100; ip daddr `+serviceDNS+` meta l4proto { tcp, udp } th dport 53 dnat to `+podDNS+`; }
	}`)
}

// podAsks returns what a pod gets for web.shop.svc at the Service's address.
func (n *node) podAsks(flags ...string) string {
	out, _ := n.pods.Try(append([]string{"dig", "+short", "+tries=1", "+timeout=2", "@" + serviceDNS, clusterName + ".cluster.local"}, flags...)...)
	return out
}

func (n *node) awaitAnswerer(want string) {
	n.t.Helper()
	n.Await("pods to get "+want, func() bool { return n.podAsks() == want && n.podAsks("+tcp") == want })
}

// TestIntercept: pods ask the cluster's DNS Service, and node-dns answers while it can. Whatever
// happens to it or to the helper, the cluster's DNS pods answer otherwise.
func TestIntercept(t *testing.T) {
	n := newServingNode(t)
	n.startAPI()
	n.serveService()
	n.awaitAnswerer(byPodDNS)
	n.WriteFile(nodeDNSFile, "intercept: ["+serviceDNS+"]\n", 0o644)
	n.WriteFile("/etc/node-dns/kubeconfig", kubeconfig, 0o644)
	n.Run("systemctl", "reload", "node-dns")
	n.awaitAnswerer(byNodeDNS)
	if level, said := n.doctor("interception"); level != doctor.OK || !strings.Contains(said, "pods' queries to "+serviceDNS+" come to this node") {
		t.Errorf("doctor says %s %s", level, said)
	}
	if status := n.status(); !strings.Contains(status, serviceDNS+" intercepted for") {
		t.Errorf("got the status\n%s", status)
	}
	n.podsAnswered("the daemon is restarted", func() { n.Run("systemctl", "restart", "node-dns") })
	n.awaitAnswerer(byNodeDNS)

	n.Run("systemctl", "kill", "-s", "KILL", "node-dns-intercept")
	n.Await("systemd to restart the helper", func() bool { return n.property("node-dns-intercept.service", "NRestarts") != "0" })
	n.awaitAnswerer(byNodeDNS)
	n.Run("systemctl", "kill", "-s", "STOP", "node-dns")
	n.awaitAnswerer(byPodDNS)
	n.Run("systemctl", "kill", "-s", "CONT", "node-dns")
	n.awaitAnswerer(byNodeDNS)
	// The watchdog kills a helper that hangs, and the kernel removes its rules.
	n.Run("systemctl", "kill", "-s", "STOP", "node-dns-intercept")
	n.Await("systemd to replace the helper that hangs", func() bool { return n.property("node-dns-intercept.service", "NRestarts") == "2" })
	n.awaitAnswerer(byNodeDNS)

	n.podsAnswered("the daemon is stopped and started", func() {
		n.Run("systemctl", "stop", "node-dns")
		n.awaitAnswerer(byPodDNS)
		n.Run("systemctl", "start", "node-dns")
		n.awaitAnswerer(byNodeDNS)
	})
	n.podsAnswered("the address of NodeLocal DNSCache is added and removed", func() {
		for _, step := range []struct{ addrs, mode string }{{serviceDNS + ", " + cacheAddr, "translated"}, {serviceDNS, "local"}} {
			n.WriteFile(nodeDNSFile, "intercept: ["+step.addrs+"]\n", 0o644)
			n.Await("the mode "+step.mode, func() bool {
				return strings.Contains(n.ReadFile("/run/node-dns-intercept/state.json"), `"address":"`+serviceDNS+`","on":true,"mode":"`+step.mode+`"`)
			})
			n.awaitAnswerer(byNodeDNS)
		}
	})
	n.podsAnswered("the key is removed", func() {
		n.WriteFile(nodeDNSFile, "intercept: none\n", 0o644)
		n.awaitAnswerer(byPodDNS)
	})
	n.Await("the helper to end", func() bool { return n.property("node-dns-intercept.service", "ActiveState") == "inactive" })
	if got := n.property("node-dns-intercept.service", "Result"); got != "success" {
		t.Errorf("the helper ended with %s", got)
	}
	if got := n.Run("nft", "list", "tables"); strings.Contains(got, "node-dns") {
		t.Errorf("a table is left:\n%s", got)
	}
	if got := n.Run("ip", "-o", "address", "show", "to", serviceDNS); got != "" {
		t.Errorf("the address is left:\n%s", got)
	}
}

var packets = regexp.MustCompile(`packets (\d+)`)

// TestIdleCountsNothing: the intercept helper and the hook check whether node-dns answers. Clients
// send no query, so the status shows none.
func TestIdleCountsNothing(t *testing.T) {
	const probes = 6
	n := newServingNode(t)
	n.startAPI()
	n.serveService()
	n.WriteFile(nodeDNSFile, "intercept: ["+serviceDNS+"]\n", 0o644)
	n.WriteFile("/etc/node-dns/kubeconfig", kubeconfig, 0o644)
	n.Run("systemctl", "restart", "node-dns")
	n.Await("interception", func() bool {
		return strings.Contains(n.ReadFile("/run/node-dns-intercept/state.json"), `"address":"`+serviceDNS+`","on":true`)
	})
	n.awaitApplied()
	n.Run("nft", "add table inet received; add chain inet received in { type filter hook input priority -500; }; add rule inet received in udp dport 53 counter")
	n.Await("probes", func() bool {
		n.Run("origin-dns-dispatcher", "apply")
		received := packets.FindStringSubmatch(n.Run("nft", "list", "table", "inet", "received"))
		count, err := strconv.Atoi(received[1])
		return err == nil && count >= probes
	})
	var status control.Status
	if err := json.Unmarshal([]byte(n.Run("node-dns", "status", "-o", "json")), &status); err != nil {
		t.Fatal(err)
	}
	if q := status.Queries; q.UDP+q.TCP > 0 {
		t.Errorf("the idle node shows %d queries over UDP and %d over TCP:\n%s", q.UDP, q.TCP, n.Run("node-dns", "status"))
	}
	if status.LastMinute != nil && status.LastMinute.Responses > 0 {
		t.Errorf("the idle node shows %d responses in the last minute", status.LastMinute.Responses)
	}
}

// TestUpgradeIntercepted: neither an upgrade of the package, nor a downgrade, nor its removal loses
// a query that pods send to the cluster's DNS Service. A new helper replaces the old one.
func TestUpgradeIntercepted(t *testing.T) {
	const rate = 2000
	n := newPackageNode(t)
	first, second := rpmbuild.Build(t, 1, rpmbuild.Systemd), rpmbuild.Build(t, 2, rpmbuild.Systemd)
	one, two := rpmbuild.Put(n.Container, first.Main), rpmbuild.Put(n.Container, second.Main)
	n.Run("rpm", "--install", one)
	n.startAPI()
	n.serveService()
	n.addLoadPods(serviceDNS)
	for _, pod := range loadPods() {
		n.lan.Run("ip", "route", "add", pod.String()+"/32", "via", nodeIP)
	}
	n.WriteFile(nodeDNSFile, "intercept: ["+serviceDNS+"]\n", 0o644)
	n.WriteFile("/etc/node-dns/kubeconfig", kubeconfig, 0o644)
	n.Run("systemctl", "enable", "--now", "node-dns")
	n.awaitAnswerer(byNodeDNS)
	pids := func() [2]string {
		return [2]string{n.property("node-dns.service", "MainPID"), n.property("node-dns-intercept.service", "MainPID")}
	}
	for _, step := range []struct {
		argv []string
		then string // who answers
	}{
		{[]string{"rpm", "--upgrade", two}, byNodeDNS},
		{[]string{"rpm", "--upgrade", "--oldpackage", one}, byNodeDNS},
		{[]string{"rpm", "--erase", "node-dns"}, byPodDNS},
	} {
		before := pids()
		n.serviceAnswers(rate, func() {
			n.Run(step.argv...)
			n.awaitAnswerer(step.then)
		})
		if now := pids(); now[0] == before[0] || now[1] == before[1] {
			t.Errorf("%v: got the processes %q, had %q", step.argv, now, before)
		}
	}
}

// serviceAnswers makes pods query the Service while happens runs. Each query must be answered by
// node-dns or the cluster's DNS pod.
func (n *node) serviceAnswers(rate int, happens func()) {
	n.t.Helper()
	var mu sync.Mutex
	got := map[string]int{}
	load := dnstest.Load{
		Server: netip.MustParseAddrPort(serviceDNS + ":53"), Rate: rate, Clients: loadPods(), Patience: loadPatience,
		Asks: []dnstest.Ask{{Name: clusterName + ".cluster.local.", Type: dns.TypeA, Want: strings.TrimSpace(byNodeDNS)}},
		Each: func(a dnstest.Answer) {
			answer := "lost"
			if a.Msg != nil {
				answer = dns.RcodeToString[a.Msg.Rcode]
				if len(a.Msg.Answer) > 0 {
					answer = strings.TrimPrefix(a.Msg.Answer[0].String(), a.Msg.Answer[0].Header().String()) + "\n"
				}
			}
			mu.Lock()
			defer mu.Unlock()
			got[answer]++
		},
	}
	loading, err := load.Start()
	if err != nil {
		n.t.Fatal(err)
	}
	happens()
	tally := loading.Stop()
	n.t.Logf("%v: %v", got, tally)
	if others := tally.Asked - got[byNodeDNS] - got[byPodDNS]; others != 0 || tally.Asked == 0 {
		n.t.Errorf("%d of %d queries were lost, or got another answer: %v", others, tally.Asked, got)
	}
}

// TestMigrateIntercept: on a node whose pods ask the cluster's DNS Service, --intercept makes their
// queries come to node-dns, and --undo reverts that. No query is lost.
func TestMigrateIntercept(t *testing.T) {
	n := newLeasedNode(t)
	n.startAPI()
	n.serveService()
	n.WriteFile(kubeletConfig, "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nclusterDomain: cluster.local\nclusterDNS:\n- "+serviceDNS+"\n", 0o644)
	n.awaitAnswerer(byPodDNS)
	if screen := n.Run("node-dns", "migrate"); screen != "Found no DNS setup to migrate from.\n" {
		t.Errorf("without --intercept:\n%s", screen)
	}
	if screen, err := n.Try("node-dns", "migrate", "--intercept", "--apply"); err == nil || !strings.Contains(screen, "interception requires a Kubernetes API") {
		t.Errorf("without a kubeconfig: %v\n%s", err, screen)
	}
	n.WriteFile("/etc/node-dns/kubeconfig", kubeconfig, 0o644)
	before := n.etc()
	n.podsAnswered("the migration and its undo", func() {
		n.Run("node-dns", "migrate", "--intercept", "--apply")
		n.awaitAnswerer(byNodeDNS)
		n.Run("node-dns", "migrate", "--undo")
		n.awaitAnswerer(byPodDNS)
	})
	n.checkEtcAs(before)
}

// podsAnswered makes a pod ask repeatedly while happens runs. Each query must get an answer.
func (n *node) podsAnswered(what string, happens func()) {
	n.t.Helper()
	n.whileAnswered("queries while "+what, func() (out string, answered bool) {
		out = n.podAsks()
		return out, out == byNodeDNS || out == byPodDNS
	}, happens)
}
