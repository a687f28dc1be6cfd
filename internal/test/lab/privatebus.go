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

// NewPrivateBus prepares a bus that is not running yet, and that ends with the test. policies are files as packages install them in
// /usr/share/dbus-1/system.d; with none of them everybody may do everything.
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

// Address is for DBUS_SYSTEM_BUS_ADDRESS.
func (b *PrivateBus) Address() string { return "unix:path=" + b.dir + "/bus" }

// Dir is the bus's directory: what is written there as NAME.service is started by the bus.
func (b *PrivateBus) Dir() string { return b.dir }

// Write puts a file into Dir.
func (b *PrivateBus) Write(name, text string) {
	b.t.Helper()
	if err := os.WriteFile(filepath.Join(b.dir, name), []byte(text), 0o644); err != nil {
		b.t.Fatal(err)
	}
}

// Start returns when the bus listens, which is when it says where.
func (b *PrivateBus) Start() {
	b.t.Helper()
	os.Remove(filepath.Join(b.dir, "bus")) // left by Kill
	cmd := exec.Command("dbus-daemon", "--config-file="+filepath.Join(b.dir, "bus.conf"),
		"--nofork", "--nopidfile", "--nosyslog", "--print-address")
	StartUntilLine(b.t, cmd)
	b.cmd = cmd
}

// Kill ends the bus with SIGKILL, also one that is stopped. A bus that does not run stays so.
func (b *PrivateBus) Kill() {
	if b.cmd != nil {
		b.cmd.Process.Kill()
		b.cmd.Wait()
		b.cmd = nil
	}
}

// Process is the running bus.
func (b *PrivateBus) Process() *os.Process { return b.cmd.Process }

// StartUntilLine starts a process, which must print, and returns when it has printed a line. It does not outlive the test's.
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

// StartBeside starts a process that does not outlive the test's, however that ends. The caller waits for it.
func StartBeside(t testing.TB, cmd *exec.Cmd) {
	t.Helper()
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	go func() {
		// Pdeathsig is sent when the thread that started the child ends (prctl(2), PR_SET_PDEATHSIG), as threads do whose goroutine
		// has changed them for good. This one stays for as long as the child.
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

// SendSignal signals a process; after SIGSTOP it returns when the process has stopped.
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
