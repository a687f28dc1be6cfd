package doctor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/internal/hostdns"
	"github.com/node-dns/node-dns/internal/sys/atomicfile"
	"github.com/node-dns/node-dns/internal/sys/dbusconn"
	"github.com/node-dns/node-dns/internal/sys/procfs"
)

// host reads system information that is not about the network.
func (g *gathering) host(context.Context) {
	var name unix.Utsname
	if unix.Uname(&name) == nil {
		g.s.Kernel = unix.ByteSliceToString(name.Release[:])
	}
	if !g.s.Live {
		return
	}
	var timex unix.Timex
	if _, err := unix.Adjtimex(&timex); err == nil { // modes is 0, so the call changes nothing
		g.s.Clock.Known, g.s.Clock.Unsynced = true, timex.Status&unix.STA_UNSYNC != 0
	}
}

// builds identifies the programs that are installed here.
func (g *gathering) builds(context.Context) {
	g.s.Program = Build{Version: g.version}
	if info, ok := debug.ReadBuildInfo(); ok {
		g.s.Program.Commit = commit(info)
	}
	if path, err := os.Executable(); err == nil {
		if info, err := os.Stat(path); err == nil {
			g.s.Clock.BuiltAt = info.ModTime()
		}
	}
	g.s.Hook = Build{Path: hookProgram}
	hook, err := os.ReadFile(g.at(hookProgram))
	if err != nil {
		g.s.Hook.Err = err
		return
	}
	g.s.Hook.Commit, g.s.Hook.Err = commitIn(hook)
}

// commitIn returns the commit that the go command recorded in a program, or "" if it recorded none.
// debug/buildinfo would add 300,000 bytes to this program, for the executable formats of all
// systems.
func commitIn(program []byte) (string, error) {
	_, info, isGo := bytes.Cut(program, []byte("\xff Go buildinf:"))
	if !isGo {
		return "", errors.New("not a Go executable")
	}
	_, rest, hasCommit := bytes.Cut(info, []byte("\nbuild\tvcs.revision="))
	commit, _, _ := bytes.Cut(rest, []byte("\n"))
	if !hasCommit {
		return "", nil
	}
	return string(commit), nil
}

func commit(info *debug.BuildInfo) string {
	for _, setting := range info.Settings {
		if setting.Key == "vcs.revision" {
			return setting.Value
		}
	}
	return ""
}

// resolv inspects the target of /etc/resolv.conf.
func (g *gathering) resolv() Resolv {
	path := g.at(resolvConf)
	info, err := os.Stat(path)
	if err != nil {
		return Resolv{}
	}
	r := Resolv{Kind: "regular", Mode: info.Mode().Perm(), UID: uidOf(info)}
	if !info.Mode().IsRegular() {
		r.Kind = info.Mode().Type().String()
	}
	if label, err := atomicfile.Label(path); err == nil {
		r.Label = label
	}
	var stat unix.Statfs_t
	r.ReadOnly = unix.Statfs(path, &stat) == nil && stat.Flags&unix.ST_RDONLY != 0
	return r
}

func uidOf(info fs.FileInfo) uint32 {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return stat.Uid
	}
	return 0
}

// storage inspects the directories that the daemon and the hook write. Below another root they have
// no expected owner.
func (g *gathering) storage() []Storage {
	all := []Storage{{Path: "/var/lib/node-dns", Want: "root"}, {Path: "/var/cache/node-dns", Want: "node-dns"}, {Path: "/run/node-dns", Want: "node-dns"}, {Path: "/etc"}}
	for i := range all {
		if !g.s.Live || !hasSystemd() { // the owner is unknown if the daemon does not run from its unit
			all[i].Want = ""
		}
		all[i].look(g.at(all[i].Path))
		if all[i].Err != nil {
			g.unseen("%v", all[i].Err)
		}
	}
	return all
}

func (d *Storage) look(path string) {
	info, err := os.Stat(path)
	if os.IsNotExist(err) {
		return
	}
	if err != nil {
		d.Err = err
		return
	}
	d.Exists, d.Mode, d.Owner = true, info.Mode().Perm(), strconv.Itoa(int(uidOf(info)))
	if owner, err := user.LookupId(d.Owner); err == nil {
		d.Owner = owner.Username
	}
	var stat unix.Statfs_t
	if err := unix.Statfs(path, &stat); err != nil {
		d.Err = err
		return
	}
	d.ReadOnly = stat.Flags&unix.ST_RDONLY != 0
	d.Free, d.Inodes, d.NoInodes = stat.Bavail*uint64(stat.Bsize), stat.Ffree, stat.Files == 0
	if strings.HasPrefix(d.Path, "/run") && d.Free > 0 {
		d.Free = max(d.Free, littleRoom) // a file system in memory: the files there are only some bytes long
	}
}

// maxOutput limits the output of a program, in bytes.
const maxOutput = 64 << 10

// output returns the output of a program without the final newline.
func output(ctx context.Context, argv ...string) (string, error) {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.WaitDelay = patience // for a program whose children keep its output open
	out, err := cmd.Output()
	return strings.TrimSpace(string(out[:min(len(out), maxOutput)])), err
}

// clients finds DHCP clients that write resolv.conf themselves, independently of NetworkManager.
func (g *gathering) clients() []Finding {
	var all []Finding
	for _, p := range procfs.Named(g.root, "dhclient") {
		if script, _ := p.Value("-sf"); strings.Contains(script, "nm-dhcp-helper") || !inHostNetwork(p) {
			continue // started by NetworkManager (dhcp=dhclient) or in a container
		}
		all = append(all, warn(fmt.Sprintf("dhclient (pid %d) runs in addition to NetworkManager, and its dhclient-script writes /etc/resolv.conf at each renewal", p.PID),
			"let NetworkManager manage the interface, or add a hook to /etc/dhcp/dhclient-enter-hooks.d with a make_resolv_conf() that does nothing"))
	}
	for _, p := range procfs.Named(g.root, "dhcpcd") {
		if !inHostNetwork(p) {
			continue
		}
		all = append(all, warn(fmt.Sprintf("dhcpcd (pid %d) writes /etc/resolv.conf through its hook 20-resolv.conf", p.PID),
			"set nohook resolv.conf in /etc/dhcpcd.conf, or let NetworkManager manage the interface"))
		break // dhcpcd has several processes
	}
	return all
}

// inHostNetwork reports whether a process is known to be in our network namespace.
func inHostNetwork(p procfs.Process) bool {
	shares, known := p.SharesNetwork()
	return shares && known
}

// netconfig checks for SUSE's netconfig, which writes resolv.conf if NETCONFIG_DNS_POLICY= is not
// empty.
func (g *gathering) netconfig() []Finding {
	const config = "/etc/sysconfig/network/config"
	file := hostdns.ReadFile(g.root, g.at(config))
	if !file.Exists || !g.isFile("/sbin/netconfig") && !g.isFile("/usr/sbin/netconfig") {
		return nil
	}
	policy := "auto"
	for line := range strings.Lines(string(file.Data)) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), "NETCONFIG_DNS_POLICY="); ok {
			policy = strings.Trim(value, `"'`)
		}
	}
	if policy == "" {
		return nil
	}
	return []Finding{warn("netconfig writes /etc/resolv.conf (NETCONFIG_DNS_POLICY="+policy+" in "+config+")", `set NETCONFIG_DNS_POLICY="" in `+config)}
}

// daemonPID returns the PID of the daemon on this host, or false if the daemon is in a container or
// has just ended.
func (g *gathering) daemonPID() (int, bool) {
	if g.s.Status == nil {
		return 0, false
	}
	pid := g.s.Status.PID
	comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	return pid, err == nil && strings.TrimSpace(string(comm)) == "node-dns"
}

func (g *gathering) process(context.Context) {
	pid, ok := g.daemonPID()
	if !ok {
		return
	}
	proc := fmt.Sprintf("/proc/%d/", pid)
	limits, _ := os.ReadFile(proc + "limits") // fails if the process has just ended
	g.s.Descriptors = openFiles(string(limits))
	exe, _ := os.Readlink(proc + "exe") // only root may read it
	g.s.Replaced = strings.HasSuffix(exe, " (deleted)")
}

// openFiles returns the hard limit from proc_pid_limits(5). Go raises the soft limit to it
// automatically.
func openFiles(limits string) uint64 {
	_, rest, _ := strings.Cut(limits, "Max open files")
	line, _, _ := strings.Cut(rest, "\n")
	fields := strings.Fields(line)
	if len(fields) < 2 {
		return 0
	}
	n, _ := strconv.ParseUint(fields[1], 10, 64) // 0 if unlimited
	return n
}

// spawnFailed is the ID of systemd's message about a command that it could not run
// (SD_MESSAGE_SPAWN_FAILED in sd-messages.h).
const spawnFailed = "641257651c1b4ec9a8624d7a40a9e1e7"

// commands asks systemd which commands of our units it could not run.
func (g *gathering) commands(ctx context.Context) {
	if !g.s.Live || !hasSystemd() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, systemPatience)
	defer cancel()
	var earliest time.Time // earlier failures no longer matter
	for _, unit := range []string{daemonUnit, applyUnit} {
		what := "failed commands of " + unit
		var ran []dbusconn.Command
		var began time.Time
		err := dbusconn.AskOnBus(ctx, patience, func(ctx context.Context, m *dbusconn.Manager) (err error) {
			ran, began, err = m.Commands(ctx, unit)
			return err
		})
		if err != nil {
			g.unseen("%s: %v", what, err)
			return
		}
		if began.IsZero() { // systemd may have forgotten a stopped unit
			began = g.s.Now.Add(-lately)
		}
		if began.Before(earliest) { // a hook run that was requested before the daemon restarted
			began = earliest
		}
		earliest = began
		// Only root's messages with this ID are from systemd.
		entries := g.journal(ctx, what, []string{"MESSAGE", "EXECUTABLE"}, since(began), "MESSAGE_ID="+spawnFailed, "_UID=0", "UNIT="+unit)
		g.s.Skipped = append(g.s.Skipped, skipped(unit, began, ran, entries)...)
	}
}
