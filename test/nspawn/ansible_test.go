package nspawn

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/node-dns/node-dns/internal/lab"
	"github.com/node-dns/node-dns/internal/rpmbuild"
)

// playbooks is where the node has contrib/ansible.
const playbooks = "/root/ansible"

// newAnsibleNode has a lease, rpm, a repository with the package, and the playbook, which is run on the node itself.
func newAnsibleNode(t *testing.T) *node {
	t.Helper()
	if os.Getenv("NODEDNS_ROOT") != "" {
		t.Skip("the tree has no ansible; the playbook is tested on this machine's own")
	}
	lab.NeedPrograms(t, "ansible-playbook")
	n := newPackageNode(t)
	rpmbuild.Publish(t, n.Container, rpmbuild.Build(t, 1, rpmbuild.Systemd).Main)
	if err := os.CopyFS(n.Path(playbooks), os.DirFS(filepath.Join(repository, "contrib/ansible"))); err != nil {
		t.Fatal(err)
	}
	n.WriteFile(playbooks+"/inventory", "[nodes]\nnode ansible_connection=local ansible_user=root\n", 0o644)
	return n
}

var recap = regexp.MustCompile(`(?m)^node +: ok=\d+ +changed=(\d+) +unreachable=0 +failed=(\d+) `)

// play runs the playbook, and returns what it printed and how many tasks changed something, and failed.
func (n *node) play(argv ...string) (out, changed, failed string) {
	n.t.Helper()
	command := "cd " + playbooks + " && ANSIBLE_NOCOLOR=1 ANSIBLE_PIPELINING=1 ansible-playbook --inventory inventory node-dns.yml " + strings.Join(argv, " ")
	out, err := n.Try("sh", "-c", command)
	found := recap.FindStringSubmatch(out)
	if found == nil || (err == nil) != (found[2] == "0") {
		n.t.Fatalf("%s: %v\n%s", command, err, out)
	}
	return out, found[1], found[2]
}

// TestAnsible: the playbook of contrib installs node-dns, changes nothing with --check or when it is run again, leaves a faulty configuration
// where it was, and goes back.
func TestAnsible(t *testing.T) {
	n := newAnsibleNode(t)
	const config = `--extra-vars '{"node_dns_unsigned": true, "node_dns_config": {"cacheSize": 5000}}'`
	before := n.tree()
	if out, changed, failed := n.play("--check", config); changed != "1" || failed != "0" {
		t.Errorf("--check changes %s, %s fail:\n%s", changed, failed, out)
	}
	n.checkTree(before)

	if out, changed, failed := n.play(config); changed == "0" || failed != "0" {
		t.Errorf("it changes %s, %s fail:\n%s", changed, failed, out)
	}
	n.awaitServing()
	if got := n.ReadFile("/etc/node-dns/node-dns.yaml"); !strings.HasSuffix(got, "\ncacheSize: 5000\n") {
		t.Errorf("the configuration is\n%s", got)
	}
	before = n.tree()
	if out, changed, failed := n.play(config); changed != "0" || failed != "0" {
		t.Errorf("run again it changes %s, %s fail:\n%s", changed, failed, out)
	}
	out, _, failed := n.play(`--extra-vars '{"node_dns_config": {"cacheSize": "many"}}'`)
	if failed != "1" || !strings.Contains(out, ":2:12: cacheSize: ") {
		t.Errorf("with a faulty configuration %s fail:\n%s", failed, out)
	}
	n.checkTree(before)

	if out, changed, failed := n.play("--extra-vars", "node_dns_state=absent"); changed != "1" || failed != "0" {
		t.Errorf("going back changes %s, %s fail:\n%s", changed, failed, out)
	}
	if got := n.ReadFile(resolvConf); got != original {
		t.Errorf("resolv.conf is\n%s", got)
	}
}
