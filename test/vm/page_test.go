package vm

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/node-dns/node-dns/internal/admin/doctor"
	"github.com/node-dns/node-dns/internal/test/manpage"
	"github.com/node-dns/node-dns/internal/test/rpmbuild"
)

// selinuxPage is docs/howto/selinux.md.
const selinuxPage = "../../docs/howto/selinux.md"

// TestPage runs the commands of docs/howto/selinux.md in order, with auditd running, on a node with
// a denial.
func TestPage(t *testing.T) {
	if testing.Short() {
		t.Skip("the guest compiles its policy, which takes minutes")
	}
	g := newServingNode(t, strictest(), true)
	g.Run("systemctl start auditd")
	g.Run("mkdir -p /srv/dns /etc/dnsmasq.d && echo '192.0.2.9 printer.example' >/srv/dns/hosts && chcon -t user_tmp_t /srv/dns/hosts && " +
		"echo addn-hosts=/srv/dns/hosts >/etc/dnsmasq.d/site.conf && " +
		"printf 'listen: [" + nodeIP + ":53, " + nodeIP + ":99]\\n' >/etc/node-dns/node-dns.yaml && systemctl reload node-dns")
	g.Await("a denial in auditd's file", "grep -q 'denied.*/srv/dns/hosts.*node_dns_t' /var/log/audit/audit.log")
	g.wants("denials", doctor.Warn, "user_tmp_t")
	for _, block := range manpage.Commands(t, selinuxPage) {
		for _, command := range block {
			t.Log(command)
			out, err := g.Try(command)
			if err != nil && command != "node-dns doctor" { // its exit status reports the denial
				t.Errorf("%s: %v\n%s", command, err, out)
			}
			if strings.HasPrefix(command, "ausearch") && !strings.Contains(out, "user_tmp_t") {
				t.Errorf("%s does not show the denial:\n%s", command, out)
			}
		}
	}
	g.Run("systemctl reload node-dns")
	g.l.Await("a name of the file that was labelled", func() bool {
		out, err := g.lan.Try("dig", "+short", "+tries=1", "+timeout=5", "@"+nodeIP, "printer.example")
		return err == nil && strings.TrimSpace(out) == "192.0.2.9"
	})
	g.l.Await("an answer on the port that was labelled", func() bool {
		out, err := g.lan.Try("dig", "+short", "+tries=1", "+timeout=5", "-p", "99", "@"+nodeIP, "www.up.example")
		return err == nil && strings.TrimSpace(out) == "192.0.2.1"
	})
	if out := g.Run("semodule -l | grep permissive_node_dns_t"); out == "" {
		t.Error("the daemon's domain is still enforced")
	}
	// That module kept ours from being removed, and the labels stayed.
	p := rpmbuild.Build(t, 1, macros())
	g.Push(router, "/srv/rpm", p.SELinux)
	g.Run("rpm --install /srv/rpm/" + filepath.Base(p.SELinux) + " && rpm --erase node-dns-selinux")
	if out, err := g.Try("semodule -l | grep node_dns"); err == nil {
		t.Errorf("after removing the package there are still modules:\n%s", out)
	}
}
