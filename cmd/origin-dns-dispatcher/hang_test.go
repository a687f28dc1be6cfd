package main_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/node-dns/node-dns/internal/test/lab"
)

// TestHangs blocks a system call, like a file system that does not answer: no context can end it.
// The watchdog must end the run with its own exit code and log where it hung. resolv.conf must be
// complete, and the next run must do the rest. The runs have separate trees and hang in parallel,
// because strace does not end before its delay is over.
func TestHangs(t *testing.T) {
	lab.Need(t, "strace")
	l := lab.New(t)
	s := &scene{Files: map[string]beforeFile{resolvConf: {Content: generated}}}
	s.stage(t, l)
	s.setUp(t, l)
	const config = "/etc/node-dns/node-dns.yaml"
	var hung []*hang
	for _, test := range []struct{ call, path, while string }{
		{"unlinkat", "/run/node-dns/apply", "taking the request /run/node-dns/apply"},
		{"openat", "/run/origin-dns-dispatcher.lock", "taking the lock /run/origin-dns-dispatcher.lock"},
		{"openat", config, "reading the configuration"},
		{"openat", resolvConf, "reading " + resolvConf},
		{"openat", temp(recordFile), "writing " + recordFile},
		{"fsync", temp(resolvConf), "writing " + resolvConf},
		{"renameat", temp(resolvConf), "writing " + resolvConf},
	} {
		root := t.TempDir()
		l.WriteFile(root+resolvConf, generated)
		l.WriteFile(root+config, "upstreams: [10.0.0.2]\n")
		hung = append(hung, &hang{call: test.call, root: root, path: test.path, while: test.while, code: 1, argv: []string{s.program, "apply", "--root", root}})
	}
	hung = append(hung, &hang{call: "renameat", path: temp(resolvConf), while: "writing " + resolvConf, argv: []string{s.program, "eth0", "up"}})
	for _, h := range hung {
		h.start(t)
	}
	for _, h := range hung {
		t.Run(h.call+" "+h.path, func(t *testing.T) { h.check(t, l) })
	}
}

func temp(path string) string {
	return filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".node-dns-tmp")
}

// hang is a run of the dispatcher that hangs in the first such call on this path of its tree.
type hang struct {
	call, root, path string
	while            string // the step that the log must name
	code             int    // the expected exit code
	argv             []string
	env              []string // in addition to PATH

	cmd *exec.Cmd
	out bytes.Buffer
}

// start runs the dispatcher with a call that takes longer than its deadline.
func (h *hang) start(t *testing.T) {
	t.Helper()
	fault := fmt.Sprintf("inject=%s:delay_enter=12s:when=1", h.call)
	strace := []string{"-f", "-qqq", "-o", "/dev/null", "-P", h.root + h.path, "-e", "trace=" + h.call, "-e", fault}
	h.cmd = exec.Command("strace", append(strace, h.argv...)...)
	h.cmd.Dir, h.cmd.Env = "/", append([]string{"PATH=" + lab.Path}, h.env...)
	h.cmd.Stdout, h.cmd.Stderr = &h.out, &h.out
	if err := h.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.cmd.Process.Kill() })
}

func (h *hang) check(t *testing.T, l *lab.Lab) {
	t.Helper()
	h.cmd.Wait() // only the exit code matters
	if code := h.cmd.ProcessState.ExitCode(); code != h.code {
		t.Errorf("exit %d, want %d", code, h.code)
	}
	want := `error="timed out while ` + strings.Replace(h.while, " /", " "+h.root+"/", 1) + `" condition=hook-hung`
	if log := h.out.String(); !strings.Contains(log, want) || strings.Count(log, "level=") != 1 {
		t.Errorf("the log is not one line with %s:\n%s", want, log)
	}
	if got := l.ReadFile(h.root + resolvConf); got != generated {
		t.Errorf("resolv.conf:\n%s", got)
	}
	l.Run(h.argv...)
	if got := l.ReadFile(h.root + resolvConf); !strings.Contains(got, "nameserver 192.168.122.50\n") {
		t.Errorf("the next run left\n%s", got)
	}
}

// TestHungCapture: systemd runs the capture in ExecStartPre=, and the watchdog ends it. The stamp
// shows that systemd can run the program. On an overloaded node the stamp came too late: the
// capture used up the time of the run, and the node kept its own nameservers until the next start
// of node-dns.
func TestHungCapture(t *testing.T) {
	lab.Need(t, "strace")
	l := lab.New(t)
	s := &scene{Files: map[string]beforeFile{resolvConf: {Content: generated}}}
	s.stage(t, l)
	s.setUp(t, l)
	root := t.TempDir()
	l.WriteFile(root+resolvConf, generated)
	l.WriteFile(root+"/run/node-dns/ready", "") // systemd creates the directory
	h := &hang{call: "openat", root: root, path: resolvConf, argv: []string{s.program, "apply", "--capture-only", "--root", root}, env: []string{"INVOCATION_ID=0123"}}
	h.start(t)
	h.cmd.Wait() // only the exit code matters
	if code := h.cmd.ProcessState.ExitCode(); code != 1 || !strings.Contains(h.out.String(), "timed out while reading "+root+resolvConf) {
		t.Errorf("exit %d, want a run that the watchdog ended:\n%s", code, h.out.String())
	}
	if got := l.ReadFile(root + "/run/node-dns/way-back"); got != "0123\n" {
		t.Errorf("the stamp is %q", got)
	}
}

// TestHangsAtTheLog: no process reads stderr, and the pipe is full.
func TestHangsAtTheLog(t *testing.T) {
	l := lab.New(t)
	s := &scene{Files: map[string]beforeFile{resolvConf: {Content: generated}}}
	s.stage(t, l)
	s.setUp(t, l)
	cmd := exec.Command(s.program, "apply")
	cmd.Dir, cmd.Env, cmd.Stderr = "/", s.environ(), fullPipe(t)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stuck := time.AfterFunc(time.Minute, func() { cmd.Process.Kill() })
	cmd.Wait() // only the exit code matters
	stuck.Stop()
	if got := cmd.ProcessState.ExitCode(); got != 1 {
		t.Errorf("exit %d, want 1", got)
	}
}

// fullPipe returns the write end of a pipe that is full until the test ends.
func fullPipe(t *testing.T) *os.File {
	t.Helper()
	var ends [2]int
	if err := syscall.Pipe2(ends[:], syscall.O_CLOEXEC|syscall.O_NONBLOCK); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Close(ends[0]) })
	for _, block := range [][]byte{slices.Repeat([]byte{'x'}, 4096), {'x'}} {
		for {
			if _, err := syscall.Write(ends[1], block); err != nil {
				break
			}
		}
	}
	if err := syscall.SetNonblock(ends[1], false); err != nil { // the flag belongs to the pipe, not to the descriptor
		t.Fatal(err)
	}
	return os.NewFile(uintptr(ends[1]), "full pipe")
}
