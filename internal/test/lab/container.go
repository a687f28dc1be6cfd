package lab

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Container is a machine beside the Lab's own with systemd as PID 1 (systemd-nspawn(1)), on an overlay of the tree that Root
// built or NODEDNS_ROOT names. Of what is installed there, only what systemd and D-Bus need starts: a test enables the rest.
// Its methods fail the test; they are for the test's own goroutine unless they say otherwise.
type Container struct {
	l        *Lab
	name     string // also its host name
	dir      string // its layers
	root     string // where they are mounted
	cgroup   string
	wires    []wire
	deployed *Deployment // nil: it boots its own root, which can be written

	nspawn *Process // nil: it is off
	leader int      // its PID 1, as the Lab numbers processes
}

// Container makes a machine, which is off. It ends with the test; when that failed, its journal is shown.
func (l *Lab) Container(name string) *Container {
	l.t.Helper()
	Need(l.t, "systemd-nspawn", "nsenter", "systemctl", "journalctl")
	if os.Getenv(rootEnv) == "" {
		Skip(l.t, "needs a root file system for containers, which could not be built (lab.Root)")
	}
	c := &Container{l: l, name: name, dir: "/run/lab/" + name}
	if err := c.makeCgroup(); err != nil {
		Skip(l.t, "making a control group for a container: %v", err)
	}
	l.t.Cleanup(c.remove)
	if err := c.mount(); err != nil {
		l.t.Fatalf("making container %s: %v", name, err)
	}
	return c
}

// inCgroup starts systemd-nspawn in the machine's control group, which sweepCgroups of another test takes away from one that is off for long.
const inCgroup = `mkdir -p "$0" && echo 0 >"$0/cgroup.procs" && exec systemd-nspawn "$@"`

// Boot starts systemd, and returns when it has started all that it is to start (systemd.unit=multi-user.target).
func (c *Container) Boot() {
	c.l.t.Helper()
	socket := filepath.Join(c.dir, "notify")
	os.Remove(socket)
	notify, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		c.l.t.Fatalf("listening for container %s: %v", c.name, err)
	}
	defer notify.Close()
	argv := []string{
		"sh", "-c", inCgroup, c.cgroup,
		"--quiet", "--directory=" + c.root, "--machine=" + c.name, "--boot", "--notify-ready=yes", "--register=no", "--keep-unit",
		"--private-network", "--resolv-conf=off", "--timezone=off", "--link-journal=no", "--console=pipe",
	}
	for _, w := range c.wires {
		w.lay(c.l)
		argv = append(argv, "--network-interface="+w.name)
	}
	argv = append(argv, c.deployed.options()...)
	argv = append(argv, "systemd.unit=multi-user.target")
	if c.deployed == nil {
		argv = append(argv, "systemd.condition-needs-update=no")
	}
	c.nspawn = c.l.Start(Command{Argv: argv, Env: []string{
		"PATH=" + Path, "NOTIFY_SOCKET=" + socket, "SYSTEMD_NSPAWN_UNIFIED_HIERARCHY=1",
	}})
	c.l.Await("container "+c.name+" to boot", func() bool { return c.booted(notify) })
}

// booted reads what nspawn says (sd_notify(3)): the leader's process id first, and that systemd is ready last.
func (c *Container) booted(notify *net.UnixConn) bool {
	if !c.nspawn.Running() {
		c.l.t.Fatalf("container %s ended while it booted:\n%s", c.name, c.nspawn.Output())
	}
	var buf [4096]byte
	notify.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	n, err := notify.Read(buf[:])
	if err != nil {
		return false
	}
	ready := false
	for line := range strings.Lines(string(buf[:n])) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		switch {
		case key == "X_NSPAWN_LEADER_PID":
			c.leader, _ = strconv.Atoi(value)
		case key == "READY" && value == "1":
			ready = true
		}
	}
	return ready && c.leader != 0
}

// rtmin is SIGRTMIN, as libc has it, and systemd's signals count from it (systemd(1), SIGNALS).
const rtmin = syscall.Signal(34)

// PowerOff has systemd stop everything in its order, and returns when the machine is off. What it wrote to its disk stays.
func (c *Container) PowerOff() {
	c.l.t.Helper()
	if err := syscall.Kill(c.leader, rtmin+4); err != nil {
		c.l.t.Fatalf("powering container %s off: %v", c.name, err)
	}
	c.l.Await("container "+c.name+" to power off", func() bool { return !c.nspawn.Running() })
	c.nspawn, c.leader = nil, 0
}

// Reboot is PowerOff and Boot.
func (c *Container) Reboot() {
	c.l.t.Helper()
	c.PowerOff()
	c.Boot()
}

// Crash ends the machine as a power failure does: nothing stops in order. What it wrote to its disk stays.
func (c *Container) Crash() {
	if c.nspawn == nil {
		return
	}
	if c.leader != 0 {
		syscall.Kill(c.leader, syscall.SIGKILL) // and with PID 1 all that it started
		Poll(5*time.Second, func() bool { return !c.nspawn.Running() })
	}
	c.nspawn.Kill()
	c.nspawn, c.leader = nil, 0
}

// remove ends the machine and leaves nothing of it.
func (c *Container) remove() {
	if c.l.t.Failed() {
		c.l.t.Logf("---- journal of %s\n%s", c.name, c.Journal())
	}
	c.Crash()
	if c.root != "" {
		if err := unix.Unmount(c.root, unix.MNT_DETACH); err != nil {
			c.l.t.Errorf("removing container %s: %v", c.name, err)
		}
	}
	if err := removeCgroup(c.cgroup); err != nil {
		c.l.t.Errorf("removing container %s: %v", c.name, err)
	}
}

// wire is a link of a container, plugged into a bridge.
type wire struct {
	name   string
	peer   *Namespace
	bridge string
	number int
}

// Wire gives the machine a link of this name, from its next Boot on, whose other end is plugged into a bridge in the namespace. Its hardware
// address is the same at each boot.
func (c *Container) Wire(name string, peer *Namespace, bridge string) {
	c.wires = append(c.wires, wire{name, peer, bridge, len(c.wires) + 1})
}

// lay makes the link; nspawn takes it from here into the machine. Of the boot before, the kernel may not yet have taken it away.
func (w wire) lay(l *Lab) {
	l.t.Helper()
	port := fmt.Sprintf("port-%s", w.name)
	w.peer.Try("ip", "link", "del", port) // most often there is none
	l.Run("ip", "link", "add", w.name, "address", fmt.Sprintf("02:00:00:00:00:%02x", w.number),
		"type", "veth", "peer", "name", port, "netns", w.peer.Name)
	w.peer.Run("ip", "link", "set", port, "master", w.bridge, "up")
}
