// Package vm boots whole machines in software emulation, for tests of what containers share with
// their host: SELinux, limits, kernel modules, hot-plugged network cards and power failures.
//
// A guest is a Debian with an SELinux policy in enforcing mode: Debian's own, or that of another
// distribution, unpacked in a directory. Package lab has cheaper machines, which boot in a second
// instead of a minute.
package vm

import (
	"bufio"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/node-dns/node-dns/internal/test/lab"
)

// Config configures a guest.
type Config struct {
	Suite Suite // "" means Bookworm
	// Directory with another distribution's targeted policy, unpacked or as root.tar.xz; "" means
	// Debian's own policy.
	Policy string
	Module []byte // policy module (CIL) to load before the first boot; nil means none
	Kernel string // additional kernel parameters
	// Calm makes the guest's clock count instructions, one per nanosecond, on one processor. By
	// that clock the guest is as fast as real hardware. While it is busy, one of its seconds takes
	// 5 to 10 seconds.
	Calm bool
}

func (c Config) policyName() string {
	if c.Policy == "" {
		return "default"
	}
	return "targeted"
}

// Machine is a guest that lasts until the end of the test. Its methods fail the test on errors and
// are for the test's goroutine.
type Machine struct {
	t      testing.TB
	l      *lab.Lab
	c      Config
	dir    string
	base   string // image that its disk is copied from
	boot   string // directory of its kernel and of the initial RAM disk
	kernel string // unpacked kernel
	links  []link

	qemu    *lab.Process // nil while it is off
	agent   net.Conn
	answers *bufio.Reader
}

type link struct {
	number int
	peer   *lab.Namespace
	bridge string
	loose  bool // its cable is unplugged
}

// New makes a machine, initially off.
func New(t testing.TB, l *lab.Lab, c Config) *Machine {
	t.Helper()
	lab.Need(t, "qemu-system-x86_64", "mkfs.ext4", "setfiles", "semodule")
	if runtime.GOARCH != "amd64" {
		lab.Skip(t, "guests are amd64")
	}
	base, err := image(c)
	if err != nil {
		t.Fatal(err)
	}
	root, err := Root(c.Suite)
	if err != nil {
		t.Fatal(err)
	}
	m := &Machine{t: t, l: l, c: c, base: base, dir: lab.ShortDir(t), boot: filepath.Join(root, "boot")}
	if m.kernel, err = unpackedKernel(m.only("vmlinuz-*")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		m.Cut()
	})
	return m
}

func (m *Machine) path(name string) string { return filepath.Join(m.dir, name) }

// Wire adds a network card whose other end is connected to a bridge in the namespace. The first
// call adds eth0, the second eth1, and so on. All bridges of one machine are in one namespace,
// because the emulator runs in it. A running machine gets the card immediately.
func (m *Machine) Wire(peer *lab.Namespace, bridge string) {
	m.t.Helper()
	n := len(m.links)
	m.links = append(m.links, link{number: n, peer: peer, bridge: bridge})
	peer.Run("ip", "tuntap", "add", "dev", tap(n), "mode", "tap")
	peer.Run("ip", "link", "set", tap(n), "master", bridge, "up")
	if m.qemu != nil {
		m.monitor("netdev_add " + m.links[n].netdev())
		m.Plug(n)
	}
}

func tap(n int) string { return "tap" + strconv.Itoa(n) }

// Boot starts the machine and returns when its agent answers.
func (m *Machine) Boot() {
	m.t.Helper()
	if _, err := os.Stat(m.path("disk")); err != nil {
		m.l.Run("cp", "--sparse=always", m.base, m.path("disk"))
	}
	m.start()
	m.connect()
	m.awaitBoot()
}

// bootTimeout is the timeout of a boot, which takes 40 to 60 s on two idle cores.
const bootTimeout = 10 * time.Minute

func (m *Machine) start(more ...string) {
	m.t.Helper()
	for _, socket := range []string{"agent", "monitor"} {
		os.Remove(m.path(socket))
	}
	argv := append(m.argv(), more...)
	if len(m.links) > 0 {
		argv = append([]string{"ip", "netns", "exec", m.links[0].peer.Name}, argv...)
	}
	m.qemu = m.l.Start(lab.Command{Argv: argv})
	for _, link := range m.links {
		if link.loose {
			m.monitor(link.cable())
		}
	}
}

// processor is the emulated model. Guests choose their code by its features, and the emulator is
// slow at the newest ones, such as AVX2 and page tables of five levels: with "max" and the kernel's
// mitigations, a boot took a third more CPU time.
const processor = "Nehalem"

// parameters are the kernel parameters of every guest. They save a third of the CPU time of a boot
// and of commands:
//   - norandmaps loads each program at the same addresses. The emulator caches translated code by
//     address, and translated every program again at each start.
//   - udev does not load drivers of hardware that no test uses.
//   - systemd does not mount the file systems, or load the modules, that no test uses.
const parameters = "root=/dev/vda rw console=ttyS0 quiet net.ifnames=0 systemd.show_status=0 security=selinux selinux=1 audit=1 " +
	"enforcing=1 mitigations=off norandmaps " +
	"modprobe.blacklist=ata_piix,ata_generic,floppy,pcspkr,psmouse,serio_raw,i2c_piix4,parport_pc,ppdev " +
	"systemd.mask=modprobe@drm.service systemd.mask=modprobe@efi_pstore.service systemd.mask=modprobe@fuse.service " +
	"systemd.mask=modprobe@loop.service systemd.mask=modprobe@dm_mod.service systemd.mask=modprobe@configfs.service " +
	"systemd.mask=sys-kernel-debug.mount systemd.mask=sys-kernel-tracing.mount systemd.mask=dev-hugepages.mount systemd.mask=dev-mqueue.mount "

func (m *Machine) argv() []string {
	m.t.Helper()
	argv := []string{
		"qemu-system-x86_64", "-cpu", processor, "-m", "1536", "-nographic", "-vga", "none", "-no-reboot",
		"-kernel", m.kernel, "-initrd", m.only("initrd.img-*"), "-append", parameters + m.c.Kernel,
		"-drive", "file=" + m.path("disk") + ",if=virtio,format=raw,cache=none",
		"-device", "virtio-rng-pci",
		"-device", "virtio-serial-pci", "-chardev", "socket,id=agent,server=on,wait=off,path=" + m.path("agent"),
		"-device", "virtserialport,chardev=agent,name=agent",
		"-monitor", "unix:" + m.path("monitor") + ",server=on,wait=off", "-serial", "stdio",
	}
	if m.c.Calm {
		argv = append(argv, "-accel", "tcg,thread=single", "-icount", "shift=0", "-smp", "1")
	} else {
		argv = append(argv, "-accel", "tcg,thread=multi", "-smp", "2")
	}
	for _, link := range m.links {
		argv = append(argv, "-netdev", link.netdev(), "-device", link.device())
	}
	return argv
}

// netdev returns the emulator's end of the cable, for -netdev and netdev_add.
func (l link) netdev() string {
	return fmt.Sprintf("tap,id=n%d,ifname=%s,script=no,downscript=no", l.number, tap(l.number))
}

// device returns the card for -device and device_add. Its address is the same at each boot.
func (l link) device() string {
	return fmt.Sprintf("virtio-net-pci,id=card%d,netdev=n%d,mac=52:54:00:00:00:%02x", l.number, l.number, l.number+1)
}

// cable returns the emulator command that plugs or unplugs the card's cable.
func (l link) cable() string {
	state := "on"
	if l.loose {
		state = "off"
	}
	return fmt.Sprintf("set_link card%d %s", l.number, state)
}

// only returns the single file in the guest's /boot that matches.
func (m *Machine) only(pattern string) string {
	m.t.Helper()
	files, err := filepath.Glob(filepath.Join(m.boot, pattern))
	if err != nil || len(files) != 1 {
		m.t.Fatalf("expected one file %s in the guest, found %v, %v", pattern, files, err)
	}
	return files[0]
}

// connect opens the agent's port.
func (m *Machine) connect() {
	m.t.Helper()
	m.agent = m.dial("agent")
	m.answers = bufio.NewReader(m.agent)
}

// dial connects to a socket that the emulator creates at its start.
func (m *Machine) dial(name string) net.Conn {
	m.t.Helper()
	var conn net.Conn
	var err error
	if !lab.Poll(time.Minute, func() bool {
		conn, err = net.Dial("unix", m.path(name))
		return err == nil || !m.qemu.Running()
	}) || err != nil {
		m.t.Fatalf("connecting to the emulator: %v\n%s", err, m.qemu.Output())
	}
	return conn
}

// awaitBoot waits until the agent reports that it is ready.
func (m *Machine) awaitBoot() {
	m.t.Helper()
	m.agent.SetReadDeadline(time.Now().Add(bootTimeout))
	for {
		line, err := m.answers.ReadString('\n')
		if err != nil {
			m.t.Fatalf("waiting for the guest to boot: %v\n%s", err, m.qemu.Output())
		}
		if strings.TrimSpace(line) == "ready" {
			return
		}
	}
}

// commandTimeout is the timeout of one script in the guest, which is 10 to 15 times slower than the
// host.
const commandTimeout = 10 * time.Minute

// ExitError is the nonzero exit status of a script.
type ExitError int

func (e ExitError) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// Try runs a script in the guest's root shell and returns its output.
func (m *Machine) Try(script string) (string, error) {
	m.t.Helper()
	m.agent.SetDeadline(time.Now().Add(commandTimeout))
	if _, err := fmt.Fprintf(m.agent, "%s\n", base64.StdEncoding.EncodeToString([]byte(script))); err != nil {
		m.t.Fatalf("sending to the guest: %v", err)
	}
	line, err := m.answers.ReadString('\n')
	if err != nil {
		m.t.Fatalf("waiting for the guest to run %q: %v\n%s", script, err, m.qemu.Output())
	}
	code, text, _ := strings.Cut(strings.TrimSpace(line), " ")
	out, err := base64.StdEncoding.DecodeString(text)
	status, errCode := strconv.Atoi(code)
	if err := errors.Join(err, errCode); err != nil {
		m.t.Fatalf("reading the guest's answer %q: %v", line, err)
	}
	if status != 0 {
		return string(out), ExitError(status)
	}
	return string(out), nil
}

// Run is Try for scripts that must succeed.
func (m *Machine) Run(script string) string {
	m.t.Helper()
	out, err := m.Try(script)
	if err != nil {
		m.t.Fatalf("%s: %v\n%s", script, err, out)
	}
	return out
}

// awaitTimeout is a limit for a stuck guest rather than a requirement on its speed.
const awaitTimeout = 5 * time.Minute

// Await runs a script until it succeeds.
func (m *Machine) Await(what, script string) {
	m.t.Helper()
	// Each call costs the guest a process, so the loop runs there. It must not take much CPU time.
	out, err := m.Try(fmt.Sprintf("end=$((SECONDS+%d)); until ( %s\n); do [ $SECONDS -lt $end ] || exit 1; sleep 1; done",
		int(awaitTimeout.Seconds()), script))
	if err != nil {
		m.t.Fatalf("waiting for %s: %v\n%s", what, err, out)
	}
}

// IsOn reports whether the machine runs and its agent is connected.
func (m *Machine) IsOn() bool { return m.agent != nil }

// PowerOff shuts the machine down cleanly and returns when it is off. Its disk is kept.
func (m *Machine) PowerOff() {
	m.t.Helper()
	m.Run("systemctl poweroff --no-block")
	if !lab.Poll(awaitTimeout, func() bool { return !m.qemu.Running() }) {
		m.t.Fatalf("the guest does not power off:\n%s", m.qemu.Output())
	}
	m.off()
}

// ReadDisk returns the contents of a file of the machine, which must be off.
func (m *Machine) ReadDisk(path string) string {
	m.t.Helper()
	return m.l.Run("sh", "-c", `exec debugfs -R "cat $1" "$2" 2>/dev/null`, "sh", path, m.path("disk"))
}

// Cut simulates a power failure: data that the guest has not flushed to its disk is lost.
func (m *Machine) Cut() {
	if m.qemu == nil {
		return
	}
	m.qemu.Kill()
	m.off()
}

func (m *Machine) off() {
	if m.agent != nil {
		m.agent.Close()
	}
	m.qemu, m.agent = nil, nil
}

// Unplug removes the card ethN from the running machine and returns when the guest has released it.
func (m *Machine) Unplug(n int) {
	m.t.Helper()
	card := "card" + strconv.Itoa(n)
	m.monitor("device_del " + card)
	if !lab.Poll(awaitTimeout, func() bool { return !strings.Contains(m.monitor("info network"), card+":") }) {
		m.t.Fatalf("the guest keeps %s", card)
	}
}

// Plug adds a card that Unplug removed.
func (m *Machine) Plug(n int) {
	m.t.Helper()
	m.monitor("device_add " + m.links[n].device())
}

// Cable plugs or unplugs the cable of the card ethN. Before Boot it sets the carrier at boot.
func (m *Machine) Cable(n int, in bool) {
	m.t.Helper()
	m.links[n].loose = !in
	if m.qemu != nil {
		m.monitor(m.links[n].cable())
	}
}

// monitor sends a command to the emulator and returns its output.
func (m *Machine) monitor(command string) string {
	m.t.Helper()
	conn := m.dial("monitor")
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(awaitTimeout))
	reader := bufio.NewReader(conn)
	prompt := func() string {
		text, err := reader.ReadString(' ')
		for err == nil && !strings.HasSuffix(text, "(qemu) ") {
			var more string
			more, err = reader.ReadString(' ')
			text += more
		}
		if err != nil {
			m.t.Fatalf("talking to the emulator: %v", err)
		}
		return text
	}
	prompt()
	fmt.Fprintf(conn, "%s\n", command)
	out := prompt()
	if strings.Contains(out, "Error") {
		m.t.Fatalf("%s: %s", command, out)
	}
	return out
}

var denial = regexp.MustCompile(`(?m)^.*avc: +denied .*$`)

// Denials returns the AVC records of all boots that match one of the patterns.
func (m *Machine) Denials(about *regexp.Regexp) []string {
	m.t.Helper()
	out, _ := m.Try("cat /var/log/audit/audit.log* 2>/dev/null; journalctl -q --no-pager -o cat _TRANSPORT=audit")
	if out == "" { // with RHEL 10's policy the guests had none, so tests passed whatever was denied
		m.t.Error("the guest has no audit records at all")
	}
	var found []string
	seen := map[string]bool{}
	for _, line := range denial.FindAllString(out, -1) {
		text := line[strings.Index(line, "avc:"):]
		if about.MatchString(text) && !seen[text] {
			seen[text] = true
			found = append(found, text)
		}
	}
	return found
}
