package nm

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/node-dns/node-dns/internal/lab"
)

// patience is how long a test waits for what must happen.
const patience = 30 * time.Second

// A busDaemon is a private dbus-daemon, which the environment says is the system bus.
type busDaemon struct {
	dir string
	cmd *exec.Cmd // nil: not running
}

const busConfig = `<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <type>system</type>
  <listen>unix:path=%[1]s/bus</listen>
  <auth>EXTERNAL</auth>
  <servicedir>%[1]s</servicedir>
  <limit name="max_replies_per_connection">64</limit><!-- 128 by default -->
  <policy context="default">
    <allow user="*"/>
    <allow own="*"/>
    <allow send_type="method_call"/>
    <allow send_type="signal"/>
    <allow send_requested_reply="true" send_type="method_return"/>
    <allow send_requested_reply="true" send_type="error"/>
    <allow receive_type="method_call"/>
    <allow receive_type="method_return"/>
    <allow receive_type="error"/>
    <allow receive_type="signal"/>
  </policy>
</busconfig>
`

// newBusDaemon prepares a bus that is not running yet.
func newBusDaemon(t *testing.T) *busDaemon {
	t.Helper()
	lab.NeedPrograms(t, "dbus-daemon")
	dir := lab.ShortDir(t)
	b := &busDaemon{dir: dir}
	b.write(t, "bus.conf", fmt.Sprintf(busConfig, dir))
	t.Setenv("DBUS_SYSTEM_BUS_ADDRESS", "unix:path="+dir+"/bus")
	t.Cleanup(b.kill)
	return b
}

// startBus starts a bus, and ends it with the test.
func startBus(t *testing.T) *busDaemon {
	t.Helper()
	b := newBusDaemon(t)
	b.start(t)
	return b
}

func (b *busDaemon) write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(b.dir, name), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// start returns when the bus listens, which is when it says where.
func (b *busDaemon) start(t *testing.T) {
	t.Helper()
	os.Remove(filepath.Join(b.dir, "bus")) // left by kill
	cmd := exec.Command("dbus-daemon", "--config-file="+filepath.Join(b.dir, "bus.conf"),
		"--nofork", "--nopidfile", "--nosyslog", "--print-address")
	b.cmd = runUntilLine(t, cmd)
}

// runUntilLine starts a process, and returns when it has printed a line.
func runUntilLine(t *testing.T, cmd *exec.Cmd) *exec.Cmd {
	t.Helper()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		cmd.Process.Kill()
		t.Fatalf("%s: %v, %v", cmd.Path, err, cmd.Wait())
	}
	return cmd
}

func (b *busDaemon) kill() {
	if b.cmd != nil {
		b.cmd.Process.Kill() // works on a stopped process too
		b.cmd.Wait()
		b.cmd = nil
	}
}

func (b *busDaemon) signal(t *testing.T, sig syscall.Signal) {
	t.Helper()
	sendSignal(t, b.cmd, sig)
}

// sendSignal returns after a SIGSTOP when the process has stopped.
func sendSignal(t *testing.T, cmd *exec.Cmd, sig syscall.Signal) {
	t.Helper()
	if err := cmd.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
	if sig == syscall.SIGSTOP {
		var status syscall.WaitStatus
		if _, err := syscall.Wait4(cmd.Process.Pid, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
			t.Fatalf("stopping %s: %v, %v", cmd.Path, status, err)
		}
	}
}

// startTestService starts a service in the test's process, and ends it with the test.
func startTestService(t *testing.T, h host) *service {
	t.Helper()
	s, err := startService(h)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.stop)
	return s
}
