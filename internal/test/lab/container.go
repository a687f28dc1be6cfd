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

// Container is a second machine besides the Lab's own, with systemd as PID 1 (systemd-nspawn(1)),
// on an overlay of the tree that Root built or NODEDNS_ROOT names. Of the installed services, it
// starts only what systemd and D-Bus need; a test enables the rest. Its methods fail the test on
// errors and are for the test's goroutine unless stated otherwise.
type Container struct {
	l        *Lab
	name     string // also its host name
	dir      string // directory of its layers
	root     string // mount point of its layers
	cgroup   string
	wires    []wire
	deployed *Deployment // nil if it boots its own, writable root

	nspawn *Process // nil while it is off
	leader int      // its PID 1, as a process id in the Lab
}

// Container makes a machine, initially off, that lasts until the end of the test. If the test
// fails, its journal is logged.
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

// inCgroup starts systemd-nspawn in the machine's control group. It creates the group first,
// because sweepCgroups of another test removes that of a machine that has been off for a long time.
const inCgroup = `mkdir -p "$0" && echo 0 >"$0/cgroup.procs" && exec systemd-nspawn "$@"`

// Boot starts systemd and returns when systemd has started everything
// (systemd.unit=multi-user.target).
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

// booted reads the notifications of nspawn (sd_notify(3)): first the process id of the leader, last
// that systemd is ready.
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

// rtmin is SIGRTMIN as in libc, the base of systemd's signals (systemd(1), SIGNALS).
const rtmin = syscall.Signal(34)

// PowerOff shuts the machine down cleanly and returns when it is off. Its disk is kept.
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

// Crash ends the machine like a power failure, without an orderly shutdown. Its disk is kept.
func (c *Container) Crash() {
	if c.nspawn == nil {
		return
	}
	if c.leader != 0 {
		syscall.Kill(c.leader, syscall.SIGKILL) // this also kills all other processes in it
		Poll(5*time.Second, func() bool { return !c.nspawn.Running() })
	}
	c.nspawn.Kill()
	c.nspawn, c.leader = nil, 0
}

// remove ends the machine and removes everything of it.
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

// wire is a link of a container that is connected to a bridge.
type wire struct {
	name   string
	peer   *Namespace
	bridge string
	number int
}

// Wire adds a link to the machine, starting with its next Boot. Its other end is connected to a
// bridge in the namespace. Its hardware address is the same at each boot.
func (c *Container) Wire(name string, peer *Namespace, bridge string) {
	c.wires = append(c.wires, wire{name, peer, bridge, len(c.wires) + 1})
}

// lay creates the link; nspawn then moves it into the machine. The kernel may not have removed that
// of the previous boot yet.
func (w wire) lay(l *Lab) {
	l.t.Helper()
	port := fmt.Sprintf("port-%s", w.name)
	w.peer.Try("ip", "link", "del", port) // usually there is none
	l.Run("ip", "link", "add", w.name, "address", fmt.Sprintf("02:00:00:00:00:%02x", w.number),
		"type", "veth", "peer", "name", port, "netns", w.peer.Name)
	w.peer.Run("ip", "link", "set", port, "master", w.bridge, "up")
}
