package e2e

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"
)

// measured has the measurements of this run.
var measured measurements

// measurements are results that no test checks. TestMain prints them.
type measurements struct {
	mu    sync.Mutex // guards lines
	lines []string
}

// latencies records a median, a 99th percentile and a maximum.
func (m *measurements) latencies(what string, all []time.Duration) {
	sorted := slices.Sorted(slices.Values(all))
	at := func(share float64) time.Duration {
		return sorted[int(share*float64(len(sorted)-1))].Round(10 * time.Microsecond)
	}
	m.note("%s: p50 %v, p99 %v, max %v (%d times)", what, at(0.5), at(0.99), at(1), len(sorted))
}

func (m *measurements) note(format string, args ...any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lines = append(m.lines, fmt.Sprintf(format, args...))
}

func (m *measurements) print(out io.Writer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.lines) > 0 {
		fmt.Fprintf(out, "measured:\n  %s\n", strings.Join(m.lines, "\n  "))
	}
}
