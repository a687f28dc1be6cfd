package nspawn

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/node-dns/node-dns/internal/test/lab"
	"github.com/node-dns/node-dns/internal/test/rpmbuild"
)

// inventory contains the node itself, and the package that was built here.
const inventory = `[nodes]
node ansible_connection=local ansible_user=root

[nodes:vars]
node_dns_unsigned=true
node_dns_config={"cacheSize": 5000}
`

// newAnsibleNode returns an OpenShift 3 node with a repository that has the package, and with the
// playbook in the directory where docs/howto/many-nodes.md runs it.
func newAnsibleNode(t *testing.T) *oldNode {
	t.Helper()
	o := newOldNode(t, dnsmasqWith{base: openshiftBase, hook: true})
	rpmbuild.Prepare(t, o.Container)
	rpmbuild.Publish(t, o.Container, rpmbuild.Build(t, 1, rpmbuild.Systemd).Main)
	if err := os.CopyFS(o.Path(home+"/contrib/ansible"), os.DirFS(filepath.Join(repository, "contrib/ansible"))); err != nil {
		t.Fatal(err)
	}
	o.WriteFile(home+"/inventory", inventory, 0o644)
	// As before the installation: the playbook checks for the program.
	o.Run("rm", "/usr/sbin/node-dns", "/usr/sbin/origin-dns-dispatcher", "/usr/lib/NetworkManager/dispatcher.d/99-origin-dns")
	return o
}

var recap = regexp.MustCompile(`(?m)^node +: ok=\d+ +changed=(\d+) +unreachable=0 +failed=(\d+) `)

// play runs a command with the playbook, and checks the number of changed and of failed tasks.
func (o *oldNode) play(command, changed, failed string) string {
	o.t.Helper()
	out, err := o.Try("sh", "-c", "cd "+home+" && ANSIBLE_NOCOLOR=1 ANSIBLE_PIPELINING=1 "+command)
	found := recap.FindStringSubmatch(out)
	if found == nil || (err == nil) != (found[2] == "0") || found[1] != changed || found[2] != failed {
		o.t.Errorf("%s: %v, want %s changed and %s failed\n%s", command, err, changed, failed, out)
	}
	return out
}

// TestAnsible: the playbook of contrib, run as in docs/howto/many-nodes.md, migrates an OpenShift 3
// node to node-dns, with the kubelet's resolvConf. It changes nothing with --check or when it is
// run again, does not install a faulty configuration, opens the given firewalld zones, and migrates
// back.
func TestAnsible(t *testing.T) {
	o := newAnsibleNode(t)
	said := commands(blocksOf(t, manyNodesPage)["Ansible"])
	if len(said) != 3 {
		t.Fatalf("got the page's commands %q", said)
	}
	check, run, back := said[0], said[1], said[2]
	o.Unmask("firewalld.service")
	before := o.tree()
	o.play(check, "1", "0")
	o.checkTree(before)

	// It installs and configures, and then migrate refuses.
	if out := o.play(run+" --extra-vars node_dns_intercept=true", "2", "1"); !strings.Contains(out, "interception requires a Kubernetes API") &&
		!strings.Contains(out, "there is nothing to intercept: the kubelet gives pods this node's address") {
		t.Errorf("with interception, which this node cannot have, the output is\n%s", out)
	}
	const nodeConfig, resolvConfSetting = "/etc/origin/node/node-config.yaml", "kubeletArguments:\n  resolv-conf:\n  - /etc/origin/node/resolv.conf\n"
	o.play(run+" --extra-vars node_dns_kubelet=true", "1", "0")
	o.checkMigrated()
	if got := o.ReadFile(nodeConfig); got != lab.OldNodeConfig+resolvConfSetting {
		t.Errorf("with node_dns_kubelet the node's configuration is\n%s", got)
	}
	if got := o.ReadFile("/etc/node-dns/node-dns.yaml"); !strings.HasSuffix(got, "\ncacheSize: 5000\n\n# Addresses on which a nameserver answered before node-dns: see node-dns migrate.\nlisten: [all]\n") {
		t.Errorf("got the configuration\n%s", got)
	}
	after := o.tree()
	o.play(run, "0", "0")
	if out := o.play(run+` --extra-vars '{"node_dns_config": {"cacheSize": "many"}}'`, "0", "1"); !strings.Contains(out, ":2:12: cacheSize: ") {
		t.Errorf("with an invalid configuration the output is\n%s", out)
	}
	o.checkTree(after)

	o.Run("systemctl", "start", "firewalld.service")
	opening := run + ` --extra-vars '{"node_dns_firewalld_zones": ["public", "trusted"]}'`
	o.play(opening+" --check", "0", "0")
	o.play(opening, "2", "0")
	o.play(opening, "0", "0")
	for _, zone := range []string{"public", "trusted"} {
		o.Run("firewall-cmd", "--zone="+zone, "--query-service=dns") // fails if it does not
	}
	o.Run("systemctl", "stop", "firewalld.service")
	o.Run("rm", "/etc/firewalld/zones/public.xml", "/etc/firewalld/zones/trusted.xml")

	o.play(back, "2", "0")
	o.checkOld()
	if got := o.ReadFile(nodeConfig); got != lab.OldNodeConfig {
		t.Errorf("after --undo the node's configuration is\n%s", got)
	}
	// A kubelet that was restarted in between reads this file until its next restart.
	const forKubelet = "/etc/origin/node/resolv.conf"
	if got := o.ReadFile(forKubelet); !strings.HasPrefix(got, "# kept by node-dns migrate --undo") || !strings.Contains(got, "\nnameserver "+loadSite+"\n") {
		t.Errorf("after --undo a kubelet that was restarted in between reads\n%s", got)
	}
	kept := []string{"/etc/node-dns", "/etc/node-dns/node-dns.yaml.rpmsave", forKubelet} // the playbook wrote the first two
	for name := range before {
		if !strings.HasPrefix(name, "/etc/") {
			kept = append(kept, name)
		}
	}
	for name := range o.tree() {
		if !strings.HasPrefix(name, "/etc/") {
			kept = append(kept, name)
		}
	}
	o.checkTree(before, kept...)
}
