// Package machine describes the machine of a measurement, and the versions of the measured
// programs.
package machine

import (
	"context"
	"debug/buildinfo"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/bench/result"
)

// Read describes this machine, of which a measurement uses these CPUs. Values that cannot be read
// stay empty.
func Read(cpus []int) result.Machine {
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

// Load returns the load averages of 1, 5 and 15 minutes.
func Load() string {
	averages := strings.Fields(firstOf("/proc/loadavg", "", ""))
	return strings.Join(averages[:min(3, len(averages))], " ")
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

// Revision returns the version of the tree of the working directory.
func Revision(ctx context.Context) string {
	text, err := exec.CommandContext(ctx, "git", "describe", "--tags", "--always", "--dirty").Output()
	if err != nil {
		return "dev"
	}
	return strings.TrimSpace(string(text))
}

// ModuleVersion returns the module of a Go program's main package.
func ModuleVersion(program string) string {
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
