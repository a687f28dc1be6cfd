package daemon

import (
	"fmt"
	"math"

	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/internal/dns/forward"
)

const (
	// filesAside are the files of all else: watches, the bus, the kernel, the control socket and its clients, loop probes,
	// what a look reads. An idle daemon has 20 of them.
	filesAside = 64
	// maxTCP bounds the clients' connections where there are files for as many.
	maxTCP = 1000
	// leastRoom is what every daemon serves with, however few files there are.
	leastRoom = 16
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

// roomForTCP is how many connections of clients there may be among so many files; 0 files: no bound.
func roomForTCP(files int) int {
	if files == 0 {
		return maxTCP
	}
	return min(maxTCP, max(leastRoom, (files-filesAside)/4))
}

// roomToForward is how many questions may wait for upstreams among so many files, beside so many listeners.
func roomToForward(files, listeners int) int {
	if files == 0 {
		return math.MaxInt
	}
	const socketsPerListener = 2 // UDP and TCP
	free := files - filesAside - roomForTCP(files) - socketsPerListener*listeners
	return max(leastRoom, free/forward.SocketsPerQuestion)
}
