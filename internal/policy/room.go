package policy

import (
	"math"

	"github.com/node-dns/node-dns/internal/dns/forward"
)

const (
	// filesAside is the number of files for everything else: watches, the bus, the kernel, the
	// control socket and its clients, loop probes, and files that a look reads. An idle daemon has
	// 20 of them.
	filesAside = 64
	// maxTCP bounds the clients' connections if the file limit allows that many.
	maxTCP = 1000
	// leastRoom is the minimum of connections and queries, regardless of the file limit.
	leastRoom = 16
	// mostListeners bounds the listen addresses, because the watchdog checks each of them.
	mostListeners      = 1024
	socketsPerListener = 2 // UDP and TCP
)

// RoomForTCP returns how many connections clients may have with this limit of open files. 0 means
// no limit.
func RoomForTCP(files int) int {
	if files == 0 {
		return maxTCP
	}
	return min(maxTCP, max(leastRoom, (files-filesAside)/4))
}

// roomToListen returns how many listen addresses are possible with this file limit. They get half
// of the remaining files, so that the other half is left for queries to upstreams.
func roomToListen(files int) int {
	if files == 0 {
		return mostListeners
	}
	return min(mostListeners, max(leastRoom, (files-filesAside-RoomForTCP(files))/2/socketsPerListener))
}

// roomToForward returns how many queries may wait for upstreams with this file limit and number of
// listeners.
func roomToForward(files, listeners int) int {
	if files == 0 {
		return math.MaxInt
	}
	free := files - filesAside - RoomForTCP(files) - socketsPerListener*listeners
	return max(leastRoom, free/forward.SocketsPerQuestion)
}
