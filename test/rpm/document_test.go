package rpm

import (
	"path/filepath"
	"testing"

	"github.com/node-dns/node-dns/internal/test/rpmbuild"
)

// TestCompletion: a node's bash can load the completions.
func TestCompletion(t *testing.T) {
	p := rpmbuild.Build(t, 1, rpmbuild.Systemd)
	root := filepath.Dir(filepath.Dir(filepath.Dir(extract(t, p.Main)[0])))
	file := root + "/usr/share/bash-completion/completions/node-dns"
	if got, want := output(t, "bash", "-c", `. "$0" && complete -p node-dns`, file), "complete -o default -F __start_node-dns node-dns\n"; got != want {
		t.Errorf("got bash completion %q, want %q", got, want)
	}
}
