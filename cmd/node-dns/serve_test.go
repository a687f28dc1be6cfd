package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/test/dnstest"
	"github.com/node-dns/node-dns/internal/test/lab"
)

// process is a `node-dns serve` process on a tree of its own.
type process struct {
	*exec.Cmd
	t    *testing.T
	root string
}

// serve starts node-dns on a port that the kernel picks. It is killed when the test ends.
func serve(t *testing.T, env ...string) *process {
	t.Helper()
	return start(t, "exec node-dns --root $ROOT serve --listen 127.0.0.1:0 --upstream 192.0.2.1", env...)
}

// start runs a shell script that starts node-dns with the tree $ROOT.
func start(t *testing.T, script string, env ...string) *process {
	t.Helper()
	if testing.Short() {
		t.Skip("starts daemons")
	}
	root := lab.ShortDir(t)
	p := &process{t: t, root: root}
	p.Cmd = exec.Command("sh", "-c", script)
	p.Env = append(os.Environ(), append(env, "ROOT="+root)...)
	log, err := os.Create(filepath.Join(root, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	p.Stderr = log
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Process.Kill() })
	return p
}

func (p *process) log() string {
	text, err := os.ReadFile(filepath.Join(p.root, "log"))
	if err != nil {
		p.t.Fatal(err)
	}
	return string(text)
}

func (p *process) signal(s os.Signal) {
	p.t.Helper()
	if err := p.Process.Signal(s); err != nil {
		p.t.Fatalf("%v: %v\n%s", s, err, p.log())
	}
}

func (p *process) has(path string) bool {
	_, err := os.Stat(filepath.Join(p.root, path))
	return err == nil
}

func (p *process) await(what string, done func() bool) {
	p.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !done(); {
		if time.Now().After(deadline) {
			p.t.Fatalf("timeout waiting for %s\n%s", what, p.log())
		}
	}
}

// status fetches the daemon's status, which must succeed.
func (p *process) status() control.Status {
	p.t.Helper()
	status, err := control.FetchStatus(p.t.Context(), control.SocketPath(p.root))
	if err != nil {
		p.t.Fatalf("%v\n%s", err, p.log())
	}
	return status
}

// end waits until the process has ended successfully.
func (p *process) end() {
	p.t.Helper()
	if err := p.Wait(); err != nil {
		p.t.Errorf("ended with %v\n%s", err, p.log())
	}
}

// TestEarlySIGHUP: a SIGHUP used to kill the daemon during its first inspection of the host, which
// takes 0.7 s if the bus hangs.
func TestEarlySIGHUP(t *testing.T) {
	t.Parallel()
	bus, err := net.Listen("unix", filepath.Join(t.TempDir(), "bus"))
	if err != nil {
		t.Fatal(err)
	}
	defer bus.Close() // no accept, so clients wait for an answer
	p := serve(t, "DBUS_SYSTEM_BUS_ADDRESS=unix:path="+bus.Addr().String())
	p.await("its first act", func() bool { return p.has("/run/node-dns") })
	signals := 0
	p.await("the listeners", func() bool {
		p.signal(unix.SIGHUP)
		signals++
		time.Sleep(time.Duration(min(signals, 50)) * time.Millisecond) // most often at the start
		return p.has("/run/node-dns/ready")
	})
	p.await("the reload", func() bool { return strings.Contains(p.log(), "msg=reloaded") })
	p.signal(unix.SIGTERM)
	p.end()
}

// TestEarlySIGTERM: a SIGTERM before startup is complete makes the daemon start and then stop
// cleanly.
func TestEarlySIGTERM(t *testing.T) {
	p := serve(t)
	p.await("its first act", func() bool { return p.has("/run/node-dns") })
	p.signal(unix.SIGTERM)
	p.end()
	if p.has("/run/node-dns/control.sock") {
		t.Error("the control socket is still there")
	}
}

// TestFewFiles: a daemon limited to 100 open files reports that it serves fewer queries at a time,
// sheds the excess, answers status requests all the while, and answers everything afterwards.
func TestFewFiles(t *testing.T) {
	upstream := dnstest.NewServer(t, "*.example. 300 IN A 192.0.2.80\n")
	upstream.SetFaults(dnstest.Faults{Delay: 300 * time.Millisecond})
	p := start(t, "ulimit -n 100; exec node-dns --root $ROOT serve --listen 127.0.0.1:0 --upstream "+upstream.Addr().String())
	p.await("the listeners", func() bool { return p.has("/run/node-dns/ready") })
	address := p.status().Listeners[0].Address
	var clients sync.WaitGroup
	var shed atomic.Int32
	for i := range 200 {
		clients.Go(func() {
			client := dns.Client{Timeout: 20 * time.Second}
			m, _, err := client.Exchange(new(dns.Msg).SetQuestion(fmt.Sprintf("n%d.example.", i), dns.TypeA), address)
			if err != nil || m.Rcode != dns.RcodeSuccess && m.Rcode != dns.RcodeServerFailure {
				t.Errorf("n%d: %v, %v", i, m, err)
			} else if m.Rcode == dns.RcodeServerFailure {
				shed.Add(1)
			}
		})
	}
	clients.Wait()
	status := p.status()
	if notes := strings.Join(status.Notes, "\n"); !strings.Contains(notes, "only 16 queries may wait for upstreams instead of dnsForwardMax 10000, because the process may open only 100 files") {
		t.Errorf("notes %q", notes)
	}
	if shed.Load() == 0 || status.Queries.Shed != uint64(shed.Load()) {
		t.Errorf("%d shed, %d counted", shed.Load(), status.Queries.Shed)
	}
	for i := range 3 {
		m, err := dns.Exchange(new(dns.Msg).SetQuestion(fmt.Sprintf("m%d.example.", i), dns.TypeA), address)
		if err != nil || len(m.Answer) != 1 {
			t.Errorf("afterwards: %v, %v", m, err)
		}
	}
	p.signal(unix.SIGTERM)
	p.end()
	if log := p.log(); strings.Count(log, "dnsForwardMax") != 1 {
		t.Errorf("the limit was not logged exactly once:\n%s", log)
	}
}

// TestSoftLimit: the soft limit for open files is raised to the hard limit minus one
// (syscall/rlimit.go). systemd leaves it at 1024.
func TestSoftLimit(t *testing.T) {
	p := start(t, "ulimit -Sn 256; ulimit -Hn 3000; exec node-dns --root $ROOT serve --listen 127.0.0.1:0 --upstream 192.0.2.1")
	p.await("the listeners", func() bool { return p.has("/run/node-dns/ready") })
	limits, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", p.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	if found, _ := regexp.Match(`Max open files +(2999|3000) +3000 `, limits); !found {
		t.Errorf("the process has\n%s", limits)
	}
	p.signal(unix.SIGTERM)
	p.end()
}

// TestWithoutRights: a user who may neither serve the host nor query its daemon gets an error that
// says what they can do instead.
func TestWithoutRights(t *testing.T) {
	if os.Geteuid() != 0 {
		lab.Skip(t, "becomes another user, which requires root")
	}
	dir := lab.ShortDir(t)
	program := filepath.Join(dir, "node-dns")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	binary, err := os.ReadFile(self)
	err = errors.Join(err, os.Chmod(dir, 0o755), os.WriteFile(program, binary, 0o755), os.MkdirAll(filepath.Join(dir, "closed/run"), 0o700))
	if err != nil {
		t.Fatal(err)
	}
	for command, want := range map[string]string{
		"serve":  "/run: permission denied\n  on a node, run it as a service: systemctl start node-dns\n",
		"status": "closed/run/node-dns/control.sock is not accessible to this user\n  try it with sudo\n",

		"query www.example":   "closed/run/node-dns/control.sock is not accessible to this user\n  try it with sudo\n",
		"explain www.example": "closed/run/node-dns/control.sock is not accessible to this user\n  try it with sudo\n",
	} {
		cmd := exec.Command(program, append([]string{"--root", filepath.Join(dir, "closed")}, strings.Fields(command)...)...)
		cmd.Dir = "/"
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		out, err := cmd.CombinedOutput()
		if err == nil || cmd.ProcessState.ExitCode() != exitDenied || !strings.Contains(string(out), want) {
			t.Errorf("%s ended with %v and printed\n%s", command, err, out)
		}
	}
}

// TestFewFilesManyConnections: a daemon limited to 100 open files answers all UDP queries, cached
// or not, and new TCP clients, while there are 300 idle connections.
func TestFewFilesManyConnections(t *testing.T) {
	upstream := dnstest.NewServer(t, "*.example. 300 IN A 192.0.2.80\n")
	p := start(t, "ulimit -n 100; exec node-dns --root $ROOT serve --listen 127.0.0.1:0 --upstream "+upstream.Addr().String())
	p.await("the listeners", func() bool { return p.has("/run/node-dns/ready") })
	address := p.status().Listeners[0].Address
	from := func(i int) *net.Dialer {
		return &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 1, 0, byte(i%250+1))}, Timeout: 20 * time.Second}
	}
	for i := range 300 {
		idle, err := from(i).Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer idle.Close()
	}
	for i := range 50 {
		for name, client := range map[string]dns.Client{
			"hot.example.":                   {Timeout: 20 * time.Second},
			fmt.Sprintf("n%d.example.", i):   {Timeout: 20 * time.Second},
			fmt.Sprintf("tcp%d.example.", i): {Timeout: 20 * time.Second, Net: "tcp", Dialer: from(i)},
		} {
			m, _, err := client.Exchange(new(dns.Msg).SetQuestion(name, dns.TypeA), address)
			if err != nil || len(m.Answer) != 1 {
				t.Errorf("%s: %v, %v", name, m, err)
			}
		}
	}
	if limits := p.status().Queries.Limits; limits.TCPIdle < 200 || limits.Upstream+limits.Full+limits.Crowding > 0 {
		t.Errorf("%+v", limits)
	}
	p.signal(unix.SIGTERM)
	p.end()
}
