package main

import (
	"context"
	"debug/buildinfo"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/bench/result"
)

// cores is the number of cores that the server, the client and the upstream nameserver share: a
// small part of a node.
const cores = 2

// pin makes this program and all its children run on the first two of its CPUs. It re-executes
// itself, because an affinity applies to a thread and its descendants. It returns when the affinity
// is set.
func pin() ([]int, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, err
	}
	var cpus []int
	var wanted unix.CPUSet
	for cpu := 0; len(cpus) < cores && cpu < 8*len(set)*8; cpu++ {
		if set.IsSet(cpu) {
			wanted.Set(cpu)
			cpus = append(cpus, cpu)
		}
	}
	if set.Count() <= cores {
		return cpus, nil
	}
	runtime.LockOSThread()
	if err := unix.SchedSetaffinity(0, &wanted); err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return nil, fmt.Errorf("re-executing on two CPUs: %w", syscall.Exec(self, os.Args, os.Environ()))
}

// thisMachine describes this machine. Values that cannot be read stay empty.
func thisMachine(cpus []int) result.Machine {
	m := result.Machine{Used: cpus, Kernel: firstOf("/proc/sys/kernel/osrelease", "", ""), CPU: firstOf("/proc/cpuinfo", "model name", ":")}
	m.System = strings.Trim(firstOf("/etc/os-release", "PRETTY_NAME", "="), `"`)
	online, _ := filepath.Glob("/sys/devices/system/cpu/cpu[0-9]*")
	m.Cores = len(online)
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) == nil {
		m.Memory = int64(info.Totalram) * int64(info.Unit)
	}
	return m
}

// firstOf returns the value of the first line of a file with the key.
func firstOf(path, key, separator string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, key) {
			continue
		}
		if _, value, found := strings.Cut(line, separator); found {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// revision returns the version of the tree that node-dns is built from.
func revision(ctx context.Context) string {
	text, err := exec.CommandContext(ctx, "git", "describe", "--tags", "--always", "--dirty").Output()
	if err != nil {
		return "dev"
	}
	return strings.TrimSpace(string(text))
}

// dotted matches a version as programs print it.
var dotted = regexp.MustCompile(`\d+\.\d+\S*`)

// versionOf returns the version that a peer prints, or for a Go module the version that it was
// built from.
func (p place) versionOf(of peer) string {
	command, err := p.command(of.program)
	switch {
	case err != nil:
		return err.Error()
	case of.program.origin == moduleOrigin:
		return moduleVersion(command[0])
	case len(of.version) == 0:
		return "built from this tree"
	}
	argv := append(command, of.version...)
	text, _ := exec.Command(argv[0], argv[1:]...).CombinedOutput() // some exit with 1 after it
	if version := dotted.Find(text); version != nil {
		return string(version)
	}
	return lastLine(string(text))
}

// moduleVersion returns the module of a Go program's main package.
func moduleVersion(program string) string {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return err.Error()
	}
	for _, m := range append(info.Deps, &info.Main) {
		if strings.HasPrefix(info.Path+"/", m.Path+"/") {
			return m.Path + " " + m.Version
		}
	}
	return "unknown"
}
