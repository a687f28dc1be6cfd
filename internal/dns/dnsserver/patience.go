package dnsserver

import "time"

const (
	// burst is how long it is waited in each second for places before a query is shed: what comes at once is read faster than it is
	// answered. Where the places stay taken, by upstreams that are dead, those whose answers are on the wire lose no more than that.
	burst = 200 * time.Millisecond
	// backlog is how long it may be waited at first: with what came while there was no process, thousands of queries wait in a socket that
	// is taken over.
	backlog = 2 * time.Second
)

// patience is how long a receiver may wait for places.
type patience struct {
	left  time.Duration
	since time.Time // the second that it is for
}

func newPatience(now time.Time) patience { return patience{backlog, now} }

// at is what there is left of it. Each second brings it back to burst.
func (p *patience) at(now time.Time) time.Duration {
	if now.Sub(p.since) >= time.Second {
		p.left, p.since = max(p.left, burst), now
	}
	return p.left
}

func (p *patience) spend(d time.Duration) { p.left -= d }
