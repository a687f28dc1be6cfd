package dnstest

import (
	"math"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/sys/unix"
)

// ThreadTime returns the CPU time of this thread. The caller has locked its goroutine to the
// thread.
func ThreadTime() time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &now); err != nil {
		panic(err) // each thread has this clock
	}
	return time.Duration(now.Nano())
}

// CheckCosts calls handle with each message of Costly, for name and for name in upper case. handle
// parses the message and processes the result. It returns the ThreadTime of each of the two steps;
// rest is 0 if the message is rejected. Both together may use 16 bytes of memory per byte of the
// message. Processing may take 12 times as long as parsing, whose time is bounded elsewhere.
func CheckCosts(t testing.TB, name string, handle func(message []byte) (read, rest time.Duration)) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for _, name := range []string{name, strings.ToUpper(name)} {
		for what, message := range Costly(name, dns.TypeHIP) {
			octets, read, rest := math.MaxInt, time.Hour, time.Hour
			// The counts include the runtime's own allocations.
			for tries := 0; tries < 8 && (octets > 16*len(message) || rest > 12*read); tries++ {
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				r, d := handle(message)
				runtime.ReadMemStats(&after)
				octets, read, rest = min(octets, int(after.TotalAlloc-before.TotalAlloc)), min(read, r), min(rest, d)
			}
			if octets > 16*len(message) {
				t.Errorf("%s: a message of %d octets took %d octets of memory, %.1f each", what, len(message), octets, float64(octets)/float64(len(message)))
			}
			if rest > 12*read {
				t.Errorf("%s: parsing took %v, the rest %v", what, read, rest)
			}
		}
	}
}
