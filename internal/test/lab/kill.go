package lab

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// killAll ends every other process of this process namespace: daemons leave children that nobody holds a handle of. It does nothing
// outside of a machine.
func killAll() {
	if os.Getpid() != 1 || os.Getenv(stageEnv) == "" {
		return
	}
	for round := 0; round < 20; round++ {
		pids := others()
		for _, pid := range pids {
			syscall.Kill(pid, syscall.SIGKILL)
		}
		if len(pids) == 0 {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// others lists the live processes but this one. The dead that nobody waits for are left: the namespace is short-lived.
func others() []int {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	var pids []int
	for _, d := range dirs {
		pid, _ := strconv.Atoi(filepath.Base(d))
		stat, err := os.ReadFile(d + "/stat")
		if pid <= 1 || err != nil {
			continue
		}
		// proc_pid_stat(5): the state follows the name, which is in parentheses and may hold any byte.
		_, rest, _ := strings.Cut(string(stat[strings.LastIndexByte(string(stat), ')'):]), " ")
		if !strings.HasPrefix(rest, "Z") {
			pids = append(pids, pid)
		}
	}
	return pids
}
