package doctor

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/node-dns/node-dns/internal/hostdns"
)

// maxOutput bounds in octets what a program may say.
const maxOutput = 64 << 10

// output is what a program prints, without its last line end.
func output(ctx context.Context, argv ...string) (string, error) {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.WaitDelay = patience // of one whose children keep its output open
	out, err := cmd.Output()
	return strings.TrimSpace(string(out[:min(len(out), maxOutput)])), err
}

// aProcess is one that runs.
type aProcess struct {
	PID  int
	Args []string
}

// processes are those of a name (proc_pid_comm(5)). Those in containers are among them.
func processes(live bool, name string) []aProcess {
	if !live {
		return nil
	}
	var all []aProcess
	dirs, _ := filepath.Glob("/proc/[0-9]*") // the pattern is ours
	for _, dir := range dirs {
		comm, err := os.ReadFile(filepath.Join(dir, "comm"))
		if err != nil || strings.TrimSpace(string(comm)) != name {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			continue
		}
		args, _ := os.ReadFile(filepath.Join(dir, "cmdline")) // it has just ended
		all = append(all, aProcess{pid, strings.Split(string(bytes.TrimRight(args, "\x00")), "\x00")})
	}
	return all
}

// flagValue is the last value of a flag, in either of its two forms.
func flagValue(args []string, flag string) (value string, ok bool) {
	for i, arg := range args {
		if text, found := strings.CutPrefix(arg, flag+"="); found {
			value, ok = text, true
		} else if arg == flag && i+1 < len(args) {
			value, ok = args[i+1], true
		}
	}
	return value, ok
}

// clients are DHCP clients that write resolv.conf by themselves, beside NetworkManager.
func (g *gathering) clients() []Writer {
	var all []Writer
	for _, p := range processes(g.Live(), "dhclient") {
		if script, _ := flagValue(p.Args, "-sf"); strings.Contains(script, "nm-dhcp-helper") || !g.inHostNetwork(p.PID) {
			continue // NetworkManager's own (dhcp=dhclient), or a container's
		}
		all = append(all, Writer{
			What: fmt.Sprintf("dhclient (pid %d) runs beside NetworkManager, and its dhclient-script writes /etc/resolv.conf at each renewal", p.PID),
			Fix:  "have NetworkManager look after the interface; or a hook in /etc/dhcp/dhclient-enter-hooks.d whose make_resolv_conf() does nothing",
		})
	}
	for _, p := range processes(g.Live(), "dhcpcd") {
		if !g.inHostNetwork(p.PID) {
			continue
		}
		all = append(all, Writer{
			What: fmt.Sprintf("dhcpcd (pid %d) writes /etc/resolv.conf by its hook 20-resolv.conf", p.PID),
			Fix:  "nohook resolv.conf in /etc/dhcpcd.conf; or have NetworkManager look after the interface",
		})
		break // it has several processes
	}
	return all
}

// inHostNetwork reports whether a process is in our network namespace; where that is not to be seen it is not.
func (g *gathering) inHostNetwork(pid int) bool {
	ours, err := os.Readlink("/proc/self/ns/net")
	its, itsErr := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", pid))
	return err == nil && itsErr == nil && ours == its
}

// netconfig is SUSE's, which writes resolv.conf wherever NETCONFIG_DNS_POLICY= is not empty.
func (g *gathering) netconfig() []Writer {
	const config = "/etc/sysconfig/network/config"
	file := hostdns.ReadFile(g.Root, g.at(config))
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
	return []Writer{{
		What: "netconfig writes /etc/resolv.conf (NETCONFIG_DNS_POLICY=" + policy + " in " + config + ")",
		Fix:  `NETCONFIG_DNS_POLICY="" in ` + config,
	}}
}

// process looks at the daemon's process, where it is this host's.
func (g *gathering) process(context.Context) {
	if g.s.Status == nil {
		return
	}
	proc := fmt.Sprintf("/proc/%d/", g.s.Status.PID)
	if comm, err := os.ReadFile(proc + "comm"); err != nil || strings.TrimSpace(string(comm)) != "node-dns" {
		return // in a container, or ended by now
	}
	limits, _ := os.ReadFile(proc + "limits") // it has just ended
	g.s.Descriptors = openFiles(string(limits))
	exe, _ := os.Readlink(proc + "exe") // only root sees it
	g.s.Replaced = strings.HasSuffix(exe, " (deleted)")
}

// openFiles is the hard limit of proc_pid_limits(5), to which Go raises the soft one by itself.
func openFiles(limits string) uint64 {
	for line := range strings.Lines(limits) {
		rest, ok := strings.CutPrefix(line, "Max open files")
		fields := strings.Fields(rest)
		if !ok || len(fields) < 2 {
			continue
		}
		n, err := strconv.ParseUint(fields[1], 10, 64)
		if err != nil {
			return 0 // unlimited
		}
		return n
	}
	return 0
}
