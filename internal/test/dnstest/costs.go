package dnstest

import (
	"math"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// CheckCosts has handle read each message of Costly, for name and for name in upper case, and do with it what comes next. handle returns how
// long it took to read a message, and how long the rest took; 0: the message is refused. All of it may take 16 octets of memory per octet of
// the message. The rest may take 12 times as long as the reading, whose time is bounded elsewhere.
func CheckCosts(t testing.TB, name string, handle func(message []byte) (read, rest time.Duration)) {
	t.Helper()
	for _, name := range []string{name, strings.ToUpper(name)} {
		for what, message := range Costly(name, dns.TypeHIP) {
			octets, read, rest := math.MaxInt, time.Hour, time.Hour
			for tries := 0; tries < 8 && (octets > 16*len(message) || rest > 12*read); tries++ { // the runtime's own are among them
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				r, d := handle(message)
				runtime.ReadMemStats(&after)
				octets, read, rest = min(octets, int(after.TotalAlloc-before.TotalAlloc)), min(read, r), min(rest, d)
			}
			if octets > 16*len(message) {
				t.Errorf("%s: %d octets took %d, %.1f each", what, len(message), octets, float64(octets)/float64(len(message)))
			}
			if rest > 12*read {
				t.Errorf("%s: read in %v, and the rest took %v", what, read, rest)
			}
		}
	}
}
