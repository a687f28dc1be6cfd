package main_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/node-dns/node-dns/internal/test/lab"
)

// TestExitCodes: a verb exits 0 if resolv.conf is correct, or would be correct with plan. The form
// that NetworkManager calls always exits 0.
func TestExitCodes(t *testing.T) {
	ready := map[string]beforeFile{resolvConf: {Content: generated}}
	pointing := map[string]beforeFile{resolvConf: {Content: ours}, originalFile: {Content: generated}}
	faulty := func(files map[string]beforeFile) map[string]beforeFile {
		return map[string]beforeFile{resolvConf: files[resolvConf], originalFile: files[originalFile], "/etc/node-dns/node-dns.yaml": {Content: "listen: everywhere\n"}}
	}
	tests := []struct {
		name  string
		files map[string]beforeFile
		alone bool
		runs  map[string]int // each runs on the original files
	}{
		{
			name: "node-dns answers", files: ready,
			runs: map[string]int{"apply": 0, "plan": 0, "plan -o json": 0, "restore": 0, "restore --dry-run": 0, "eth0 up": 0},
		},
		{
			name: "nobody answers", files: ready, alone: true,
			runs: map[string]int{"apply": 1, "plan": 1, "plan -o json": 1, "restore": 0, "eth0 up": 0},
		},
		{
			// resolv.conf goes back to the original, but libc does not query this node.
			name: "no nameserver answers any more", files: pointing, alone: true,
			runs: map[string]int{"apply": 1, "plan": 1, "restore": 0, "restore --if-ours": 0, "restore --dry-run": 0, "eth0 up": 0, "apply --capture-only": 0, "stopped": 0},
		},
		{
			name: "a faulty configuration", files: faulty(ready),
			runs: map[string]int{"apply": 1, "plan": 1, "eth0 up": 0},
		},
		{
			name: "a faulty configuration, pointing here", files: faulty(pointing),
			runs: map[string]int{"apply": 1, "plan": 1, "restore": 0, "eth0 up": 0},
		},
		{
			name: "no upstream known", files: map[string]beforeFile{resolvConf: {Content: ours}},
			runs: map[string]int{"apply": 1, "plan": 1, "restore": 1, "restore --dry-run": 1, "eth0 up": 0, "apply --capture-only": 0, "stopped": 1},
		},
		{
			name: "usage", files: ready,
			runs: map[string]int{"plan -o yaml": 2, "apply now": 2, "restore --force": 2, "": 2, "--help": 0},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			l := lab.New(t)
			s := &scene{Files: test.files, Alone: test.alone}
			s.stage(t, l)
			for words, want := range test.runs {
				s.setUp(t, l)
				cmd := exec.Command(s.program, strings.Fields(words)...)
				cmd.Dir, cmd.Env = "/", s.environ()
				out, _ := cmd.CombinedOutput() // only the exit code matters
				if got := cmd.ProcessState.ExitCode(); got != want {
					t.Errorf("%q: exit %d, want %d\n%s", words, got, want, out)
				}
			}
		})
	}
}

// TestBlockedExitCode: a resolv.conf that cannot be written is an error for a person, but not for
// NetworkManager.
func TestBlockedExitCode(t *testing.T) {
	l := lab.New(t)
	s := &scene{Bind: true, Files: map[string]beforeFile{upstreamsFile: {Content: "server=10.0.0.2\n"}}}
	s.stage(t, l)
	s.setUp(t, l)
	l.Run("mount", "-o", "remount,bind,ro", resolvConf)
	for _, test := range []struct {
		words string
		want  int
	}{{"apply", 1}, {"eth0 up", 0}} {
		cmd := exec.Command(s.program, strings.Fields(test.words)...)
		cmd.Dir, cmd.Env = "/", s.environ()
		out, _ := cmd.CombinedOutput() // only the exit code matters
		if got := cmd.ProcessState.ExitCode(); got != test.want || !strings.Contains(string(out), " condition=resolv-conf-blocked\n") {
			t.Errorf("%q: exit %d, want %d\n%s", test.words, got, test.want, out)
		}
	}
}
