package main

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/node-dns/node-dns/internal/test/lab"
)

// TestCgroup: the program runs in the group with its quota, and the group is removed afterwards.
func TestCgroup(t *testing.T) {
	for _, test := range []struct {
		name   string
		cores  float64
		quotas []string // for versions 1 and 2
	}{
		{"half a core", 0.5, []string{"50000", "50000 100000"}},
		{"no limit", 0, []string{"-1", "max 100000"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			g, err := newCgroup(test.cores)
			if err != nil {
				lab.Skip(t, "needs a cgroup to write to: %v", err)
			}
			defer g.remove()
			argv := g.enter([]string{"/bin/cat", "/proc/self/cgroup"})
			text, err := exec.Command(argv[0], argv[1:]...).CombinedOutput()
			if err != nil || !strings.Contains(string(text), "/"+filepath.Base(string(g))+"\n") {
				t.Errorf("%v: %s", err, text)
			}
			quota := ""
			for _, file := range []string{"cpu.cfs_quota_us", "cpu.max"} {
				if text, err := os.ReadFile(filepath.Join(string(g), file)); err == nil {
					quota += strings.TrimSpace(string(text))
				}
			}
			if quota != test.quotas[0] && quota != test.quotas[1] {
				t.Errorf("%q", quota)
			}
			g.remove()
			if _, err := os.Stat(string(g)); !os.IsNotExist(err) {
				t.Errorf("the group still exists: %v", err)
			}
		})
	}
}

// TestNoCgroup: directories that are not control groups are reported and left unchanged.
func TestNoCgroup(t *testing.T) {
	g := cgroup(t.TempDir())
	for _, cores := range []float64{0, 0.5} {
		if err := g.limit(cores); !os.IsNotExist(err) {
			t.Errorf("%v cores: %v", cores, err)
		}
	}
	if files, err := fs.Glob(os.DirFS(string(g)), "*"); err != nil || len(files) > 0 {
		t.Errorf("%q, %v", files, err)
	}
}
