// Package procfs reads /proc: the processes on this host with their command lines (proc(5)), the
// memory limits of this process's control groups (cgroups(7)), and SELinux's mode and contexts.
//
// It sees only what /proc shows to this user. If /proc hides other users' processes (hidepid=,
// ProtectProc=), it finds none.
package procfs

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Process is a running process.
type Process struct {
	PID  int
	Args []string // command line, starting with the program

	proc string // path of /proc
}

// Named returns the processes with a name (proc_pid_comm(5)) by PID, including those in containers.
// root is the directory that contains /proc; "" means /.
func Named(root, name string) []Process {
	proc := filepath.Join("/", root, "/proc")
	entries, _ := os.ReadDir(proc) // nil if there is no /proc
	var pids []int                 // sorting a separate struct type would make the hook 13 kB larger
	for _, entry := range entries {
		if pid, err := strconv.Atoi(entry.Name()); err == nil {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	var all []Process
	for _, pid := range pids {
		p := Process{PID: pid, proc: proc}
		comm, err := os.ReadFile(p.file("comm"))
		if err != nil || strings.TrimSuffix(string(comm), "\n") != name {
			continue
		}
		args, _ := os.ReadFile(p.file("cmdline")) // empty if it has just ended
		p.Args = strings.Split(strings.TrimSuffix(string(args), "\x00"), "\x00")
		all = append(all, p)
	}
	return all
}

// Host returns the first process with a name for which isRoots is true, because any user can give a
// process any name, and which is not known to be in another network namespace, such as a
// container's. It returns false if there is no such process.
func Host(root, name string) (Process, bool) {
	for _, p := range Named(root, name) {
		if shares, known := p.SharesNetwork(); (shares || !known) && p.isRoots() {
			return p, true
		}
	}
	return Process{}, false
}

// isRoots reports whether only root can have started the process and set its name and command line.
// All its user IDs must be root's in proc_pid_status(5); a set-user-ID program keeps the caller's
// unless it changes them, as sudo does. If visible, its program must not be set-user-ID. And if
// systemd runs, the process must be in a service's own control group.
func (p Process) isRoots() bool {
	status, _ := os.ReadFile(p.file("status")) // empty if it has just ended
	isRoot := false
	for line := range strings.Lines(string(status)) {
		if ids := strings.Fields(line); len(ids) == 5 && ids[0] == "Uid:" {
			isRoot = !slices.ContainsFunc(ids[1:], func(id string) bool { return id != "0" })
		}
	}
	if info, err := os.Stat(p.file("exe")); err == nil && info.Mode()&os.ModeSetuid != 0 {
		return false
	}
	return isRoot && (p.isService() || !p.hasSystemd())
}

// hasSystemd is like sd_booted(3).
func (p Process) hasSystemd() bool {
	info, err := os.Lstat(filepath.Join(filepath.Dir(p.proc), "run/systemd/system"))
	return err == nil && info.IsDir()
}

// isService reports whether the process is in the control group of a service, or in one that a
// kubelet made for itself (--kubelet-cgroups): in systemd's hierarchy (cgroups(7)), directly below
// slices. Services of users are below their user's service, and sessions and containers are in
// scopes or in groups below a service.
func (p Process) isService() bool {
	groups, _ := os.ReadFile(p.file("cgroup")) // empty if it has just ended
	path := ""
	for line := range strings.Lines(string(groups)) {
		fields := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3) // number, controllers, path
		if len(fields) == 3 && (fields[1] == "name=systemd" || path == "" && fields[0] == "0") {
			path = fields[2]
		}
	}
	for dir := range strings.SplitSeq(strings.Trim(filepath.Dir(path), "/"), "/") {
		if dir == "user.slice" || dir != "" && !strings.HasSuffix(dir, ".slice") {
			return false
		}
	}
	name := filepath.Base(path)
	return strings.HasSuffix(name, ".service") || name == "kubelet"
}

// file returns the path of a file of the process in /proc.
func (p Process) file(name string) string { return filepath.Join(p.proc, strconv.Itoa(p.PID), name) }

// SharesNetwork reports whether the process is in our network namespace. known is false if that
// cannot be determined; only root can see it for other users' processes.
func (p Process) SharesNetwork() (shares, known bool) {
	ours, err := os.Readlink(filepath.Join(p.proc, "self/ns/net"))
	its, itsErr := os.Readlink(p.file("ns/net"))
	return ours == its, err == nil && itsErr == nil
}

// Dir returns the working directory, relative to the root directory of the process. If it cannot be
// read, Dir returns "/", the default for services. Only root can read it for other users'
// processes.
func (p Process) Dir() string {
	dir, err := os.Readlink(p.file("cwd"))
	if err != nil || !filepath.IsAbs(dir) {
		return "/"
	}
	return dir
}

// HasOther reports whether an absolute path is known to be a different file for the process than
// for us, because of its mount namespace or root directory. It returns false if the file is the
// same, is missing for both, or cannot be checked; only root can check other users' processes.
func (p Process) HasOther(path string) bool {
	root := p.file("root")
	if _, err := os.Stat(root); err != nil {
		return false
	}
	its, itsErr := os.Stat(filepath.Join(root, path))
	ours, err := os.Stat(filepath.Join(filepath.Dir(p.proc), path))
	if itsErr != nil || err != nil {
		return (itsErr == nil) != (err == nil)
	}
	return !os.SameFile(its, ours)
}

// Values returns the values of a flag in order. flag includes the dashes. Both forms count:
// "--flag=value" and "--flag value". As in the kubelet, "_" in a flag name means "-", and "--" ends
// the flags.
func (p Process) Values(flag string) []string {
	var all []string
	for i, arg := range p.Args {
		name, value, isOne := strings.Cut(arg, "=")
		switch {
		case arg == "--":
			return all
		case strings.ReplaceAll(name, "_", "-") != flag:
		case isOne:
			all = append(all, value)
		case i+1 < len(p.Args):
			all = append(all, p.Args[i+1])
		}
	}
	return all
}

// Value returns the last of the Values, which is the effective one of a flag with a single value.
func (p Process) Value(flag string) (value string, ok bool) {
	all := p.Values(flag)
	if len(all) == 0 {
		return "", false
	}
	return all[len(all)-1], true
}

// FlagPlace describes a flag of a process, such as "--cluster-dns of the kubelet, pid 812".
func FlagPlace(flag, name string, pid int) string {
	return fmt.Sprintf("%s of the %s, pid %d", flag, name, pid)
}
