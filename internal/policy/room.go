package policy

import (
	"math"

	"github.com/node-dns/node-dns/internal/dns/forward"
)

const (
	// filesAside is how many files all else needs: watches, the bus, the kernel, the control socket and its clients, loop probes,
	// the files that a look reads. An idle daemon has 20 of them.
	filesAside = 64
	// maxTCP bounds the clients' connections if there are files for that many.
	maxTCP = 1000
	// leastRoom is how many connections and questions there may be at least, however few files there are.
	leastRoom = 16
)

// RoomForTCP is how many connections clients may have if the process may open that many files; 0 files: no bound.
func RoomForTCP(files int) int {
	if files == 0 {
		return maxTCP
	}
	return min(maxTCP, max(leastRoom, (files-filesAside)/4))
}

// roomToForward is how many questions may wait for upstreams with that many files and listeners.
func roomToForward(files, listeners int) int {
	if files == 0 {
		return math.MaxInt
	}
	const socketsPerListener = 2 // UDP and TCP
	free := files - filesAside - RoomForTCP(files) - socketsPerListener*listeners
	return max(leastRoom, free/forward.SocketsPerQuestion)
}
