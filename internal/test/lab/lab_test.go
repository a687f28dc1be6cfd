package lab

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestMain(m *testing.M) {
	Main(m, Machines(2), Build("./internal/test/lab/testdata/hello", "./internal/test/lab/testdata/beside"), Root(), Packages("systemd-resolved"))
}

// TestNewResets: what the first test leaves behind must not affect the second.
func TestNewResets(t *testing.T) {
	t.Run("leave", func(t *testing.T) {
		l := New(t)
		for _, path := range []string{"/etc/left", "/usr/sbin/left", "/var/left", "/run/left"} {
			if err := os.WriteFile(path, nil, 0o644); err != nil {
				t.Error(err)
			}
		}
		srv := l.Namespace("srv")
		l.Veth("eth0", srv, "srv0")
		l.Addr("eth0", "192.168.122.50/24", "2001:db8::1/64")
		l.Addr("lo", "10.1.1.1/32")
		l.Route("default via 192.168.122.1 dev eth0 metric 100")
		l.Route("-6 default via 2001:db8::2 dev eth0")
		l.Run("ip", "rule", "add", "pref", "100", "table", "77")
		l.Run("ip", "-6", "rule", "add", "pref", "100", "table", "77")
		l.Run("mount", "--bind", "/etc/passwd", "/etc/left")
		l.Start(Command{Argv: []string{"sh", "-c", "sleep 1000 & sleep 1000"}})
	})
	t.Run("find", func(t *testing.T) {
		l := New(t)
		for _, path := range []string{"/etc/left", "/usr/sbin/left", "/var/left", "/run/left", "/run/netns", "/etc/resolv.conf", "/etc/origin"} {
			if _, err := os.Stat(path); err == nil {
				t.Errorf("%s still exists", path)
			}
		}
		links, err := net.Interfaces()
		if err != nil || len(links) != 1 {
			t.Errorf("links %v, %v; want only lo", links, err)
		}
		if got := l.Run("ip", "addr", "show", "lo"); strings.Contains(got, "10.1.1.1") {
			t.Errorf("lo kept its address:\n%s", got)
		}
		if got := l.Run("ip", "rule") + l.Run("ip", "-6", "rule"); strings.Contains(got, "77") {
			t.Errorf("a rule was left:\n%s", got)
		}
		if left := others(); len(left) != 0 {
			t.Errorf("processes left: %v", left)
		}
	})
}

func TestLinks(t *testing.T) {
	l := New(t)
	srv := l.Namespace("srv")
	l.Veth("eth0", srv, "srv0")
	l.Addr("eth0", "192.168.122.50/24")
	srv.Run("ip", "addr", "add", "192.168.122.1/24", "dev", "srv0")
	l.Tun("tun0")
	l.Route("default dev tun0 scope link")
	// Refused by the other end, so it is reachable.
	if _, err := net.Dial("tcp", "192.168.122.1:9"); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("dialling the other end: %v", err)
	}
	// A tunnel that no process holds open has no carrier, and the kernel marks its routes linkdown.
	if got := l.Run("ip", "route", "show", "default"); strings.Contains(got, "linkdown") || !strings.Contains(got, "tun0") {
		t.Errorf("default route: %s", got)
	}
}

func TestProcess(t *testing.T) {
	l := New(t)
	p := l.Start(Command{Argv: []string{"sh", "-c", "echo one; echo two >&2; env; exec sleep 1000"}, Env: []string{"A=b"}})
	l.Await("output", func() bool { return strings.Contains(p.Output(), "A=b") })
	if !strings.HasPrefix(p.Output(), "one\ntwo\n") || !p.Running() {
		t.Errorf("output %q, running %v", p.Output(), p.Running())
	}
	p.Signal(syscall.SIGSTOP)
	p.Signal(syscall.SIGCONT)
	p.Stop()
	if p.Running() {
		t.Error("still running after Stop")
	}
	p.Kill() // of an ended process
}

func TestBinary(t *testing.T) {
	l := New(t)
	if got := l.Run(Binary(t, "hello")); got != "hello\n" {
		t.Errorf("printed %q", got)
	}
}

// TestRouteFamily: an IPv4 route with an IPv6 gateway (RFC 5549) became an IPv6 route.
func TestRouteFamily(t *testing.T) {
	l := New(t)
	l.Veth("eth0", l.Namespace("srv"), "srv0")
	l.Addr("eth0", "192.168.122.50/24", "2001:db8::1/64")
	l.Route("default via inet6 2001:db8::2 dev eth0")
	if got := l.Run("ip", "-4", "route", "show", "default"); !strings.Contains(got, "via inet6 2001:db8::2") {
		t.Errorf("IPv4 default route: %q", got)
	}
}

// copySelf copies the test binary to a path where another machine or another user can run it.
func copySelf(t *testing.T) (path string) {
	t.Helper()
	data, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join("/run", "lab.test")
	if err := os.WriteFile(path, data, 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestFuzzing: workers of `go test -fuzz` failed in a package with lab.Main. Each made its own
// machine first, where the pipes from the fuzzing engine did not exist.
func TestFuzzing(t *testing.T) {
	New(t)
	cmd := exec.Command(copySelf(t), "-test.run=^$", "-test.fuzz=^FuzzReply$", "-test.fuzztime=20x", "-test.parallel=1", "-test.fuzzcachedir=/run/fuzz")
	cmd.Env, cmd.Dir = []string{"PATH=" + Path}, "/run"
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "PASS") {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestPrograms(t *testing.T) { NeedPrograms(t, "sh", "ip") }

// TestMissing: on a laptop, the reason for a skip is shown; in CI, it is a failure.
func TestMissing(t *testing.T) {
	New(t)
	self := copySelf(t)
	for _, row := range []struct {
		name, test, path, env, want, reason string
		ok                                  bool
	}{
		{"laptop", "TestProcess", Path, "A=b", "SKIP", "not root", true},
		{"CI", "TestProcess", Path, "CI=true", "FAIL", "not root", false},
		{"required", "TestProcess", Path, "NODEDNS_LANES=require", "FAIL", "not root", false},
		{"skipped", "TestProcess", Path, "NODEDNS_LANES=skip", "SKIP", "NODEDNS_LANES=skip", true},
		{"program skipped", "TestPrograms", Path, "NODEDNS_LANES=skip", "SKIP", "needs [sh", true},
		{"programs", "TestPrograms", Path, "CI=true", "PASS", "", true},
		{"no program", "TestPrograms", "/nowhere", "A=b", "SKIP", "needs sh", true},
		{"no program, CI", "TestPrograms", "/nowhere", "CI=true", "FAIL", "needs sh", false},
	} {
		t.Run(row.name, func(t *testing.T) {
			cmd := exec.Command(self, "-test.run=^"+row.test+"$", "-test.v")
			cmd.Env = []string{"PATH=" + row.path, row.env}
			cmd.Dir = "/"
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
			out, err := cmd.CombinedOutput()
			if (err == nil) != row.ok || !strings.Contains(string(out), "--- "+row.want+": "+row.test) || !strings.Contains(string(out), row.reason) {
				t.Errorf("%v, want %s\n%s", err, row.want, out)
			}
		})
	}
}

func TestPollGivesUp(t *testing.T) {
	if Poll(0, func() bool { return false }) {
		t.Error("Poll returned true for a condition that never holds")
	}
}
