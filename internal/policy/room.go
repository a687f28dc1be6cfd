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
	// mostListeners bounds the addresses that are listened on: each is asked by the watchdog.
	mostListeners      = 1024
	socketsPerListener = 2 // UDP and TCP
)

// RoomForTCP is how many connections clients may have if the process may open that many files; 0 files: no bound.
func RoomForTCP(files int) int {
	if files == 0 {
		return maxTCP
	}
	return min(maxTCP, max(leastRoom, (files-filesAside)/4))
}

// roomToListen is how many addresses may be listened on with that many files: half of what all else leaves, so that the rest is enough to
// ask upstreams.
func roomToListen(files int) int {
	if files == 0 {
		return mostListeners
	}
	return min(mostListeners, max(leastRoom, (files-filesAside-RoomForTCP(files))/2/socketsPerListener))
}

// roomToForward is how many questions may wait for upstreams with that many files and listeners.
func roomToForward(files, listeners int) int {
	if files == 0 {
		return math.MaxInt
	}
	free := files - filesAside - RoomForTCP(files) - socketsPerListener*listeners
	return max(leastRoom, free/forward.SocketsPerQuestion)
}
