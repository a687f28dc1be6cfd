package vm

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/node-dns/node-dns/internal/admin/doctor"
)

// report returns doctor's report.
func (g *guest) report() doctor.Report {
	g.t.Helper()
	out, _ := g.Try("node-dns doctor -o json 2>/dev/null") // the exit status depends on other checks too
	var r doctor.Report
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		g.t.Fatalf("reading doctor's report: %v\n%s", err, out)
	}
	return r
}

// findings returns doctor's findings of one check.
func (g *guest) findings(check string) []doctor.Finding {
	g.t.Helper()
	return slices.DeleteFunc(g.report().Findings, func(f doctor.Finding) bool { return f.Check != check })
}

// failures returns the failed findings.
func (g *guest) failures() []doctor.Finding {
	g.t.Helper()
	return slices.DeleteFunc(g.report().Findings, func(f doctor.Finding) bool { return f.Level != doctor.Fail })
}

// wants fails the test unless a check has a finding of this level that contains all words. It
// retries, because the daemon of a slow guest may not answer doctor in time.
func (g *guest) wants(check string, level doctor.Level, words ...string) doctor.Finding {
	g.t.Helper()
	var found []doctor.Finding
	for range 10 {
		found = g.findings(check)
		for _, f := range found {
			text := f.What + " " + strings.Join(f.Details, " ") + " " + f.Fix
			if f.Level == level && !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(text, word) }) {
				return f
			}
		}
		g.Run("sleep 2")
	}
	g.t.Errorf("doctor's check %s: no %s that contains %q in %+v", check, level, words, found)
	return doctor.Finding{}
}

// TestDoctor: doctor and status report the state of SELinux, and doctor's fixes work.
func TestDoctor(t *testing.T) {
	g := newServingNode(t, strictest(), true)
	g.wants("selinux", doctor.OK, "enforcing", "node_dns_t")
	if out := g.Run("node-dns status"); !strings.Contains(out, "enforcing") || !strings.Contains(out, "node_dns_t") {
		t.Errorf("got the status\n%s", out)
	}
	if found := g.findings("labels"); len(found) > 0 {
		t.Errorf("finding about correct labels: %+v", found)
	}

	g.Run("echo 'logLevel: info' >/tmp/moved.yaml && mv -Z /tmp/moved.yaml /etc/node-dns/node-dns.yaml; chcon -t user_tmp_t /etc/node-dns/node-dns.yaml; systemctl reload node-dns")
	g.Await("a denial", "journalctl -q -o cat _TRANSPORT=audit | grep 'denied.*node-dns.yaml'")
	fix := g.wants("labels", doctor.Fail, "/etc/node-dns/node-dns.yaml", "user_tmp_t", "node_dns_conf_t", "restorecon").Fix
	g.wants("denials", doctor.Warn, "user_tmp_t")
	g.Run(fix)
	if found := g.findings("labels"); len(found) > 0 {
		t.Errorf("after %s: %+v", fix, found)
	}

	g.Run("setenforce 0")
	g.wants("selinux", doctor.OK, "permissive")
	g.Run("setenforce 1")

	g.Run("chcon -t shadow_t /usr/libexec/node-dns/origin-dns-dispatcher; systemctl restart node-dns")
	g.checkAnswers()
	g.wants("commands", doctor.Fail, "origin-dns-dispatcher")
	fix = g.wants("labels", doctor.Fail, "origin-dns-dispatcher", "node_dns_hook_exec_t").Fix
	g.Run(fix + " && systemctl restart node-dns")
	g.awaitPointed()
	if found := g.findings("commands"); slices.ContainsFunc(found, func(f doctor.Finding) bool { return f.Level == doctor.Fail }) {
		t.Errorf("after %s and a restart: %+v", fix, found)
	}
}

// TestFirewalld: RHEL's default zone drops a pod's queries. doctor names the zone and the
// interface, and its command allows the pod.
func TestFirewalld(t *testing.T) {
	g := newServingNode(t, strictest(), true)
	g.Run("ip netns add pod && ip link add cni0 type bridge && ip address add 10.128.0.1/24 dev cni0 && ip link set cni0 up && " +
		"ip link add veth0 type veth peer name eth0 netns pod && ip link set veth0 master cni0 up && " +
		"ip -n pod address add 10.128.0.2/24 dev eth0 && ip -n pod link set eth0 up && ip -n pod route add default via 10.128.0.1")
	g.Run("echo 'podCIDRs: [10.128.0.0/14]' >/etc/node-dns/node-dns.yaml; systemctl reload node-dns")
	const ask = "ip netns exec pod dig +short +tries=3 +timeout=5 @" + nodeIP + " www.up.example | grep -qx 192.0.2.1"
	g.Await("the pod to be answered", ask)
	g.Run("systemctl unmask firewalld; systemctl start firewalld")
	g.Await("firewalld to drop what the pod asks", "! "+ask) // it reports its start before its rules are in place
	f := g.wants("input-filter", doctor.Fail, "public", "cni0", "firewall-cmd")
	g.Run(f.Fix)
	g.Await("the pod to be answered after "+f.Fix, ask)
	g.wants("input-filter", doctor.OK)
	g.checkDenials()
}
