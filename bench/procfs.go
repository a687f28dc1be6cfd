package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of times in /proc. USER_HZ is 100 on every Linux architecture that Go supports
// (time(7)).
const tick = time.Second / 100

// procStat is the part of /proc/PID/stat that we use (proc_pid_stat(5)).
type procStat struct {
	name   string
	parent int
	cpu    time.Duration // of all its threads
	dead   time.Duration // of children that ended and were waited for
}

// parseStat parses /proc/PID/stat. The name in it may contain blanks and parentheses.
func parseStat(text string) (procStat, error) {
	open, end := strings.IndexByte(text, '('), strings.LastIndexByte(text, ')')
	if open < 0 || end < open {
		return procStat{}, fmt.Errorf("parsing a process's stat: no name in %q", text)
	}
	fields := strings.Fields(text[end+1:]) // from the third field on, the state
	if len(fields) < 15 {
		return procStat{}, fmt.Errorf("parsing a process's stat: %d fields after the name", len(fields))
	}
	var numbers [5]int64
	// ppid, utime, stime, cutime, cstime, numbered as in the manual.
	for i, at := range []int{4, 14, 15, 16, 17} {
		n, err := strconv.ParseInt(fields[at-3], 10, 64)
		if err != nil {
			return procStat{}, fmt.Errorf("parsing a process's stat: %w", err)
		}
		numbers[i] = n
	}
	return procStat{
		name: text[open+1 : end], parent: int(numbers[0]),
		cpu: time.Duration(numbers[1]+numbers[2]) * tick, dead: time.Duration(numbers[3]+numbers[4]) * tick,
	}, nil
}

// parseBusy parses /proc/stat and returns the time that these CPUs were not idle, including time
// taken by other virtual machines (steal).
func parseBusy(text string, cpus []int) (time.Duration, error) {
	var busy int64
	seen := 0
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		number, isCPU := strings.CutPrefix(fields[0], "cpu")
		cpu, err := strconv.Atoi(number)
		if !isCPU || err != nil || !slices.Contains(cpus, cpu) || len(fields) < 9 {
			continue
		}
		seen++
		// user, nice, system, irq, softirq, steal; 4 and 5 are idle and iowait.
		for _, at := range []int{1, 2, 3, 6, 7, 8} {
			n, err := strconv.ParseInt(fields[at], 10, 64)
			if err != nil {
				return 0, fmt.Errorf("parsing /proc/stat: %w", err)
			}
			busy += n
		}
	}
	if seen != len(cpus) {
		return 0, fmt.Errorf("parsing /proc/stat: found %d of %d CPUs", seen, len(cpus))
	}
	return time.Duration(busy) * tick, nil
}

// parseStatus returns a size from /proc/PID/status (VmRSS, VmHWM) in bytes.
func parseStatus(text, key string) (int64, error) {
	for line := range strings.Lines(text) {
		value, found := strings.CutPrefix(line, key+":")
		if !found {
			continue
		}
		kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("parsing %s: %w", key, err)
		}
		return kib << 10, nil
	}
	return 0, fmt.Errorf("parsing a process's status: no %s", key)
}
