package rpm

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/node-dns/node-dns/internal/lab"
	"github.com/node-dns/node-dns/internal/rpmbuild"
)

// TestCompletion: the bash that a node has can read its completions.
func TestCompletion(t *testing.T) {
	p := rpmbuild.Build(t, 1, rpmbuild.Systemd)
	root := filepath.Dir(filepath.Dir(filepath.Dir(extract(t, p.Main)[0])))
	file := root + "/usr/share/bash-completion/completions/node-dns"
	if got, want := output(t, "bash", "-c", `. "$0" && complete -p node-dns`, file), "complete -o default -F __start_node-dns node-dns\n"; got != want {
		t.Errorf("bash completes by %q, want %q", got, want)
	}
}

// TestPolicy: SELinux's tools compile the policy, against the reference policy. What it allows is not tested.
func TestPolicy(t *testing.T) {
	const makefile = "/usr/share/selinux/devel/Makefile"
	if _, err := os.Stat(makefile); err != nil {
		lab.Skip(t, "needs the development files of a policy: %v", err)
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(rpmbuild.Root(t)+"/packaging/selinux")); err != nil {
		t.Fatal(err)
	}
	output(t, "make", "-C", dir, "-f", makefile, "node_dns.pp")
	if info, err := os.Stat(dir + "/node_dns.pp"); err != nil || info.Size() == 0 {
		t.Errorf("it makes no module: %v", err)
	}
}
