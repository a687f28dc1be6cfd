package netns

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/node-dns/node-dns/internal/admin/doctor"
	"github.com/node-dns/node-dns/internal/test/lab"
)

// doctor returns the report of node-dns doctor on this node.
func (n *node) doctor() doctor.Report {
	n.t.Helper()
	return diagnose(n.t, n.l)
}

// diagnose returns the report of node-dns doctor, which must exit 1 if it has a failure and else 0.
func diagnose(t testing.TB, l *lab.Lab) doctor.Report {
	t.Helper()
	out, err := l.Try(lab.Binary(t, "node-dns"), "doctor", "-o", "json")
	var report doctor.Report
	if jsonErr := json.Unmarshal([]byte(out), &report); jsonErr != nil || (err != nil) != (report.Failures > 0) {
		t.Fatalf("%v, %v:\n%s", err, jsonErr, out)
	}
	return report
}

// wantFinding checks that one finding of a check contains all parts.
func wantFinding(t *testing.T, r doctor.Report, check string, level doctor.Level, parts ...string) {
	t.Helper()
	said := ""
	for _, f := range r.Findings {
		if f.Check != check {
			continue
		}
		text := strings.Join(append([]string{f.What, f.Fix}, f.Details...), "\n")
		said += fmt.Sprintf("[%s] %s\n", f.Level, text)
		if f.Level == level && !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(text, part) }) {
			return
		}
	}
	t.Errorf("%s has no finding [%s] %q:\n%s", check, level, parts, said)
}

// TestDoctor: a healthy node has no failure. Then openshift-ansible's leftovers come back, node-dns
// stops, and dnsmasq takes its place.
func TestDoctor(t *testing.T) {
	n := newNode(t)
	n.l.WriteFile("/var/lib/kubelet/config.yaml", "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nclusterDNS: ["+ns2+"]\nresolvConf: "+nodeResolvConf+"\n")
	n.connect("eth0")
	n.await(right{Upstreams: []string{ns1}, Cluster: true})
	r := n.doctor()
	wantFinding(t, r, "cluster", doctor.Fail, ns2, "answers REFUSED for kubernetes.default.svc.cluster.local.") // the LAN's nameservers only know their own names
	if r.Failures > 1 {
		t.Errorf("%+v", r.Findings)
	}
	wantFinding(t, r, "daemon", doctor.OK, fmt.Sprintf("pid %d", n.daemon.PID()), "ready")
	wantFinding(t, r, "port", doctor.OK, nodeIP+":53: only node-dns listens (udp+tcp)")
	wantFinding(t, r, "resolv.conf", doctor.OK, "managed by node-dns, nameserver "+nodeIP)
	wantFinding(t, r, "hook", doctor.OK, installedHook)
	wantFinding(t, r, "upstreams", doctor.Warn, ns1, "REFUSED") // likewise
	wantFinding(t, r, "kubelet", doctor.OK, nodeResolvConf, ns1)
	wantFinding(t, r, "networkmanager-conf", doctor.OK, "leaves /etc/resolv.conf") // rc-manager=file of these tests restores the file

	const oldHook = "/etc/NetworkManager/dispatcher.d/99-origin-dns.sh"
	n.l.WriteFile("/etc/NetworkManager/conf.d/99-origin.conf", "[main]\ndns=none\n")
	n.l.WriteFile(oldHook, "#!/bin/bash\n")
	if err := os.Chmod(oldHook, 0o755); err != nil {
		t.Fatal(err)
	}
	n.l.WriteFile("/var/lib/kubelet/config.yaml", "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nclusterDNS: ["+ns2+"]\n")
	n.daemon.Stop()
	dnsmasq := n.l.Start(lab.Command{Argv: []string{
		"dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--user=root", "--pid-file", "--log-facility=-", "--no-resolv", "--no-hosts",
		"--bind-interfaces", "--listen-address=" + nodeIP, "--server=" + ns1,
	}})
	n.l.Await("dnsmasq to answer", func() bool {
		_, err := n.l.Try("dig", "+tries=1", "+time=1", "@"+nodeIP, "who.test")
		return err == nil
	})
	r = n.doctor()
	wantFinding(t, r, "daemon", doctor.Fail, "is not running")
	wantFinding(t, r, "port", doctor.Fail, nodeIP+":53 is in use by dnsmasq", fmt.Sprintf("dnsmasq (pid %d) uses %s:53 udp", dnsmasq.PID(), nodeIP), nodeIP+":53 tcp")
	wantFinding(t, r, "old-hook", doctor.Fail, oldHook)
	wantFinding(t, r, "networkmanager-conf", doctor.Warn, "99-origin.conf:2 sets dns=none")
	wantFinding(t, r, "resolv.conf", doctor.Fail, "names this node ("+nodeIP+"), but node-dns does not answer there")
	wantFinding(t, r, "kubelet", doctor.Fail, "names this node ("+nodeIP+")")

	before := n.l.ReadFile(resolvConf)
	n.doctor()
	if after := n.l.ReadFile(resolvConf); after != before {
		t.Errorf("doctor has changed resolv.conf:\n%s", after)
	}
}

// TestHostIsFiltered: only a query that the host itself sends over UDP shows that a filter drops
// it.
func TestHostIsFiltered(t *testing.T) {
	lab.Need(t, "nft")
	n := newNode(t)
	n.connect("eth0")
	n.await(right{Upstreams: []string{ns1}})
	n.l.Run("nft", "add table inet own; add chain inet own out { type filter hook output priority 0; }; add rule inet own out ip daddr "+nodeIP+" udp dport 53 drop")
	wantFinding(t, n.doctor(), "clients", doctor.Fail, "this host gets no answer from "+nodeIP+":53 over UDP: ", "allow port 53 from this host to "+nodeIP)
	n.l.Run("nft", "delete table inet own")
	for _, f := range n.doctor().Findings {
		if f.Check == "clients" && f.Level == doctor.Fail {
			t.Errorf("without the filter: %+v", f)
		}
	}
}

// TestPortsOfOthers: SkyDNS in OpenShift's node process keeps the address that only dnsBindAddress
// names, and node-dns still becomes ready. doctor finds node-dns at its ports other than 53.
func TestPortsOfOthers(t *testing.T) {
	n := newNode(t)
	n.l.Run("cp", "/usr/sbin/dnsmasq", "/run/openshift") // the process name of OpenShift 3's node process
	n.l.Start(lab.Command{Argv: []string{
		"/run/openshift", "--keep-in-foreground", "--conf-file=/dev/null", "--user=root", "--pid-file", "--log-facility=-", "--no-resolv", "--no-hosts",
		"--listen-address=127.0.0.1", "--bind-interfaces",
	}})
	n.l.Await("openshift to have the port", func() bool { return n.l.Run("ss", "-lntH", "src", "127.0.0.1:53") != "" })
	n.l.WriteFile("/etc/origin/node/node-config.yaml", "dnsIP: 0.0.0.0\ndnsBindAddress: 127.0.0.1:53\nkubeletArguments: {resolv-conf: ["+nodeResolvConf+"]}\n")
	n.l.WriteFile("/etc/node-dns/node-dns.yaml", "clusterListen: [0.0.0.0:8053]\n")
	n.connect("eth0")
	n.await(right{Upstreams: []string{ns1}, Cluster: true})
	n.l.Run(lab.Binary(t, "node-dns"), "wait", "--for=ready", "--timeout=10s")
	r := n.doctor()
	if r.Failures > 0 {
		t.Errorf("%+v", r.Findings)
	}
	wantFinding(t, r, "port", doctor.OK, "127.0.0.1:53 is used by openshift")
	wantFinding(t, r, "port", doctor.OK, nodeIP+":8053", "127.0.0.1:8053", "node-dns listens (udp+tcp)")
}
