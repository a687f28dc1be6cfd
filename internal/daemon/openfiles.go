package daemon

import (
	"fmt"
	"math"

	"golang.org/x/sys/unix"
)

// openFiles is how many files this process may open. Go raises the soft limit (1024 for what systemd starts) to one
// below the hard one by itself (syscall/rlimit.go, since 1.19); the hard one is 524288 by systemd 240 and later, and 4096
// before.
func openFiles() (int, error) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return 0, fmt.Errorf("asking how many files may be open: %w", err)
	}
	return int(min(limit.Cur, math.MaxInt32)), nil
}
