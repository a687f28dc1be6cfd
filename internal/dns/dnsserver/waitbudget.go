package dnsserver

import "time"

const (
	// burst is the time per second that a receiver may wait for free slots before it sheds queries.
	// A burst of queries is read faster than it is answered. If dead upstreams keep the slots
	// taken, queries with answers on the fast path wait no longer than this.
	burst = 200 * time.Millisecond
	// backlog is the first such time. A socket that was taken over may hold thousands of queries
	// that arrived while no process was running.
	backlog = 2 * time.Second
)

// waitBudget is the time budget of a receiver for waiting for slots.
type waitBudget struct {
	left  time.Duration
	since time.Time // start of the current second
}

func newWaitBudget(now time.Time) waitBudget { return waitBudget{backlog, now} }

// at returns the remaining budget. Each second refills it to at least burst.
func (b *waitBudget) at(now time.Time) time.Duration {
	if now.Sub(b.since) >= time.Second {
		b.left, b.since = max(b.left, burst), now
	}
	return b.left
}

func (b *waitBudget) spend(d time.Duration) { b.left -= d }
