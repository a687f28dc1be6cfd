package netns

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/node-dns/node-dns/internal/test/lab"
)

// TestTroubleshooting runs the commands of the guides on a healthy node. Each of them must work.
func TestTroubleshooting(t *testing.T) {
	n := newNode(t)
	n.connect("eth0")
	n.await(right{Upstreams: []string{ns1}})
	sh := newShell(t, "/")
	n.l.Run("ln", "-s", n.program, "/usr/sbin/origin-dns-dispatcher")
	n.l.Run("ln", "-s", lab.Binary(t, "node-dns"), "/usr/sbin/node-dns")
	var spans []string
	for _, document := range typed {
		spans = append(spans, mentioned(t, document)...)
	}
	if !slices.Contains(spans, "ls -l /etc/resolv.conf") {
		t.Errorf("the sentences have too few commands: %v", spans)
	}
	slices.Sort(spans)
	for _, command := range slices.Compact(spans) {
		if _, ok := elsewhere[command]; !ok {
			sh.run(command)
			n.await(right{Upstreams: []string{ns1}}) // nmcli makes NetworkManager overwrite resolv.conf
		}
	}
	var commands [][]string
	for _, document := range typed {
		if document != readme && document != troubleshooting { // test/nspawn runs the README's
			commands = append(commands, blocks(t, document)...)
		}
	}
	for _, b := range append(commands, blocks(t, troubleshooting)...) { // which ends with the removal
		if slices.Contains(b, "node-dns restore") {
			n.daemon.Stop()
		}
		for _, command := range b {
			if _, ok := elsewhere[command]; !ok {
				sh.run(command)
			}
		}
	}
	if want, got := n.l.ReadFile(networkManagerResolvConf), n.l.ReadFile(resolvConf); got != want || !strings.Contains(got, "nameserver "+ns1) {
		t.Errorf("restored %q, want %q", got, want)
	}
}

// TestTroubleshootingReasons causes, on one node, each reason in the guide for a resolv.conf that
// is left alone.
func TestTroubleshootingReasons(t *testing.T) {
	n := newNode(t, bare())
	static := []string{"ipv4.method", "manual", "ipv4.addresses", nodeIP + "/24", "ipv4.gateway", router}
	told := leftAlone(t)
	for _, step := range []struct {
		reason    string // as in the guide
		bringThis func()
	}{
		{"this node has no address to listen on", func() {}},
		{"no upstream nameserver is known", func() { n.connect("eth0", static...) }},
		{"10.0.0.5:53 does not answer", func() {
			n.l.Nmcli("connection", "modify", "eth0", "ipv4.dns", ns1)
			n.l.Nmcli("connection", "up", "eth0")
		}},
		{"the configuration has errors", func() { n.l.WriteFile("/etc/node-dns/node-dns.yaml", "listen: everywhere\n") }},
		{"it cannot be read", func() {
			if err := os.Remove(resolvConf); err != nil {
				t.Fatal(err)
			}
			n.l.Run("mkdir", resolvConf)
		}},
	} {
		step.bringThis()
		want := "resolv.conf: left alone: " + strings.Replace(step.reason, "10.0.0.5", nodeIP, 1)
		if got, err := n.l.Try(n.program, "plan"); err == nil || !strings.Contains(got, want) {
			t.Errorf("%v; the plan does not contain %q:\n%s", err, want, got)
		}
		if !slices.Contains(told, step.reason) {
			t.Errorf("the guide does not list %q", step.reason)
		}
		told = slices.DeleteFunc(told, func(reason string) bool { return reason == step.reason })
	}
	if len(told) > 0 {
		t.Errorf("this test does not cover these reasons of the guide: %q", told)
	}
}

// leftAlone returns the reasons in the guide's table.
func leftAlone(t *testing.T) []string {
	t.Helper()
	var all []string
	for line := range strings.Lines(readDocument(t, troubleshooting)) {
		if rest, ok := strings.CutPrefix(line, "| `left alone: "); ok {
			reason, _, _ := strings.Cut(rest, "`")
			all = append(all, reason)
		}
	}
	return all
}
