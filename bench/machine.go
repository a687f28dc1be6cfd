package main

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/bench/machine"
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
		return machine.ModuleVersion(command[0])
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
