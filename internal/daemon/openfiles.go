package daemon

import (
	"fmt"
	"math"

	"golang.org/x/sys/unix"
)

// openFiles returns how many files this process may open. Go itself raises the soft limit (1024
// under systemd) to one below the hard limit (syscall/rlimit.go, since 1.19). The hard limit is
// 524288 with systemd 240 and later, and 4096 before.
func openFiles() (int, error) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return 0, fmt.Errorf("reading the limit of open files: %w", err)
	}
	return int(min(limit.Cur, math.MaxInt32)), nil
}
