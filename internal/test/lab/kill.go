package lab

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// killAll kills every other process in this PID namespace, because daemons leave children behind.
// It does nothing outside a machine.
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

// others lists the live processes except this one. Zombies do not count: the namespace is
// short-lived.
func others() []int {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	var pids []int
	for _, d := range dirs {
		pid, _ := strconv.Atoi(filepath.Base(d))
		stat, err := os.ReadFile(d + "/stat")
		if pid <= 1 || err != nil {
			continue
		}
		// proc_pid_stat(5): the state follows the name, which is in parentheses and may contain any
		// byte.
		_, rest, _ := strings.Cut(string(stat[strings.LastIndexByte(string(stat), ')'):]), " ")
		if !strings.HasPrefix(rest, "Z") {
			pids = append(pids, pid)
		}
	}
	return pids
}
