// Package procfs reads /proc: which processes run on this host, with their command lines (proc(5)), and how much memory the control
// groups of this process let it use (cgroups(7)).
//
// It sees what everybody may see: where /proc hides the processes of others (hidepid=, ProtectProc=) nobody runs.
package procfs

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Process is one that runs.
type Process struct {
	PID  int
	Args []string // its command line, the program first

	proc string // where /proc is
}

// Named are those of a name (proc_pid_comm(5)), those in containers too, by their numbers. root is where /proc is looked for; "": /.
func Named(root, name string) []Process {
	proc := filepath.Join("/", root, "/proc")
	entries, _ := os.ReadDir(proc) // nil: a tree without one
	var all []Process
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		comm, err := os.ReadFile(filepath.Join(proc, entry.Name(), "comm"))
		if err != nil || strings.TrimSuffix(string(comm), "\n") != name {
			continue
		}
		args, _ := os.ReadFile(filepath.Join(proc, entry.Name(), "cmdline")) // it has just ended
		all = append(all, Process{PID: pid, Args: strings.Split(strings.TrimSuffix(string(args), "\x00"), "\x00"), proc: proc})
	}
	slices.SortFunc(all, func(a, b Process) int { return cmp.Compare(a.PID, b.PID) })
	return all
}

// Host is the first of a name that isRoots, for anybody may give a process any name, and that is not known to be in another network
// than we, as in a container of its own; false: there is none.
func Host(root, name string) (Process, bool) {
	for _, p := range Named(root, name) {
		if shares, known := p.SharesNetwork(); (shares || !known) && p.isRoots() {
			return p, true
		}
	}
	return Process{}, false
}

// isRoots reports whether root alone can have started the process, and given it its name and command line. All its users are root, by
// proc_pid_status(5): those of a program that is set-user-ID are not all, unless it makes them so, as sudo does. It runs no such
// program, where that is to be seen. And systemd, where that runs, has it in a service's own control group.
func (p Process) isRoots() bool {
	status, _ := os.ReadFile(p.file("status")) // it has just ended
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

// hasSystemd is sd_booted(3).
func (p Process) hasSystemd() bool {
	info, err := os.Lstat(filepath.Join(filepath.Dir(p.proc), "run/systemd/system"))
	return err == nil && info.IsDir()
}

// isService reports whether the process is in the control group of a service, or in one that a kubelet has made for itself
// (--kubelet-cgroups): by the hierarchy that systemd goes by (cgroups(7)), behind nothing but slices. Users' own services are behind
// theirs, and sessions and containers in scopes, or in groups below a service's.
func (p Process) isService() bool {
	groups, _ := os.ReadFile(p.file("cgroup")) // it has just ended
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

// file is one of the process's own in /proc.
func (p Process) file(name string) string { return filepath.Join(p.proc, strconv.Itoa(p.PID), name) }

// SharesNetwork reports whether it is in our network namespace. known: that can be seen; of others' processes root alone sees it.
func (p Process) SharesNetwork() (shares, known bool) {
	ours, err := os.Readlink(filepath.Join(p.proc, "self/ns/net"))
	its, itsErr := os.Readlink(p.file("ns/net"))
	return ours == its, err == nil && itsErr == nil
}

// Dir is its working directory, as its own root has it; "/", where a service has it unless told otherwise, where that is not seen: of
// others' processes root alone sees it.
func (p Process) Dir() string {
	dir, err := os.Readlink(p.file("cwd"))
	if err != nil || !filepath.IsAbs(dir) {
		return "/"
	}
	return dir
}

// HasOther reports whether an absolute path is known to be another file to it than to us, as in a mount namespace or root directory of its
// own. false: it is the same one, or none for both, or that cannot be seen; of others' processes root alone sees it.
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

// Values are those of a flag, dashes included, in their order, in either of its forms: "--flag=value" and "--flag value". As a kubelet
// reads them "_" in a flag's name is "-", and "--" ends the flags.
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

// Value is the last of the Values, which counts where a flag has one.
func (p Process) Value(flag string) (value string, ok bool) {
	all := p.Values(flag)
	if len(all) == 0 {
		return "", false
	}
	return all[len(all)-1], true
}

// FlagPlace names a flag, and the process it was given to: "--cluster-dns of the kubelet, pid 812".
func FlagPlace(flag, name string, pid int) string {
	return fmt.Sprintf("%s of the %s, pid %d", flag, name, pid)
}
