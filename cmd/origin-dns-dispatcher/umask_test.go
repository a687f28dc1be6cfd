package main_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/node-dns/node-dns/internal/test/lab"
)

// TestUmask: `sudo origin-dns-dispatcher apply` from a shell with umask 077 once created a
// /var/lib/node-dns that the daemon could not enter.
func TestUmask(t *testing.T) {
	l := lab.New(t)
	s := scenes()[0]
	s.stage(t, l)
	s.setUp(t, l)
	cmd := exec.Command("sh", "-c", `umask 077; exec "$0" apply`, s.program)
	cmd.Dir, cmd.Env = "/", s.environ()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for path, mode := range map[string]os.FileMode{
		filepath.Dir(factsFile): os.ModeDir | 0o755, factsFile: 0o644, recordFile: 0o644, resolvConf: 0o644,
	} {
		if info, err := os.Stat(path); err != nil || info.Mode() != mode {
			t.Errorf("%s: got %v, %v; want %v", path, info.Mode(), err, mode)
		}
	}
}
