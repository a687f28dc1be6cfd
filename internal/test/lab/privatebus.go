package lab

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// PrivateBus is a dbus-daemon for one test, configured as a system bus. It needs no machine.
type PrivateBus struct {
	t   testing.TB
	dir string
	cmd *exec.Cmd // nil: not running
}

// NewPrivateBus prepares a bus, which is not started yet and ends with the test. policies are files
// that packages install in /usr/share/dbus-1/system.d; without policies everything is allowed.
func NewPrivateBus(t testing.TB, policies ...string) *PrivateBus {
	t.Helper()
	NeedPrograms(t, "dbus-daemon")
	b := &PrivateBus{t: t, dir: ShortDir(t)}
	rights, more := allRights, `<limit name="max_replies_per_connection">64</limit><!-- 128 by default -->`
	if len(policies) > 0 {
		rights = noRights
		if err := os.Chmod(b.dir, 0o755); err != nil { // for users other than the test's
			t.Fatal(err)
		}
	}
	for _, policy := range policies {
		path, err := filepath.Abs(policy)
		if err != nil {
			t.Fatal(err)
		}
		more += "<include>" + path + "</include>"
	}
	b.Write("bus.conf", fmt.Sprintf(busConfig, b.dir+"/bus", b.dir, rights, more))
	t.Cleanup(b.Kill)
	return b
}

// Address returns the value for DBUS_SYSTEM_BUS_ADDRESS.
func (b *PrivateBus) Address() string { return "unix:path=" + b.dir + "/bus" }

// Dir returns the bus's directory. The bus starts services from files NAME.service in it.
func (b *PrivateBus) Dir() string { return b.dir }

// Write writes a file in Dir.
func (b *PrivateBus) Write(name, text string) {
	b.t.Helper()
	if err := os.WriteFile(filepath.Join(b.dir, name), []byte(text), 0o644); err != nil {
		b.t.Fatal(err)
	}
}

// Start starts the bus and returns when it listens, which is when it prints its address.
func (b *PrivateBus) Start() {
	b.t.Helper()
	os.Remove(filepath.Join(b.dir, "bus")) // left over by Kill
	cmd := exec.Command("dbus-daemon", "--config-file="+filepath.Join(b.dir, "bus.conf"),
		"--nofork", "--nopidfile", "--nosyslog", "--print-address")
	StartUntilLine(b.t, cmd)
	b.cmd = cmd
}

// Kill kills the bus with SIGKILL, even if it is stopped. If it is not running, Kill does nothing.
func (b *PrivateBus) Kill() {
	if b.cmd != nil {
		b.cmd.Process.Kill()
		b.cmd.Wait()
		b.cmd = nil
	}
}

// Process returns the process of the running bus.
func (b *PrivateBus) Process() *os.Process { return b.cmd.Process }

// StartUntilLine starts a process and returns when it has printed a line. The process ends with the
// test at the latest.
func StartUntilLine(t testing.TB, cmd *exec.Cmd) {
	t.Helper()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	StartBeside(t, cmd)
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		cmd.Process.Kill()
		t.Fatalf("%s: %v, %v", strings.Join(cmd.Args, " "), err, cmd.Wait())
	}
}

// StartBeside starts a process that ends no later than the test's process. The caller waits for it.
func StartBeside(t testing.TB, cmd *exec.Cmd) {
	t.Helper()
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	go func() {
		// Pdeathsig is sent when the thread that started the child ends (prctl(2),
		// PR_SET_PDEATHSIG). A thread ends if its goroutine has changed it permanently. This thread
		// stays as long as the child.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			for errors.Is(unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil), unix.EINTR) {
				continue
			}
		}
	}()
	if err := <-started; err != nil {
		t.Fatalf("starting %s: %v", strings.Join(cmd.Args, " "), err)
	}
}

// SendSignal signals a process. After SIGSTOP it returns when the process has stopped.
func SendSignal(t testing.TB, process *os.Process, sig syscall.Signal) {
	t.Helper()
	if err := process.Signal(sig); err != nil {
		t.Fatal(err)
	}
	if sig == syscall.SIGSTOP {
		var status syscall.WaitStatus
		if _, err := syscall.Wait4(process.Pid, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
			t.Fatalf("stopping process %d: %v, %v", process.Pid, status, err)
		}
	}
}
