package forward

import (
	"sync"
	"time"
)

// resendAfter is how long a question is waited for at least before it is sent to the same server again, and longer each time:
// what is so late is lost, or the server asks others for it, and has it no sooner for being asked twice.
const resendAfter = 100 * time.Millisecond

// waitFor is how long a server is waited for before another is asked as well, or the same one again. n is how many were asked
// before.
func (f *Forward) waitFor(s *server, again bool, n int) time.Duration {
	return f.bounded(s.wait(), again, n)
}

func (f *Forward) bounded(wait time.Duration, again bool, n int) time.Duration {
	if again {
		wait = max(wait, resendAfter*time.Duration(n+1))
	}
	return max(min(wait, f.tryTimeout), f.hedge)
}

// mayHedge reports whether another server may be asked as well, when the wait for one is over. If that has said nothing at all
// since the question was sent, it may; otherwise it is the name that takes long, or one packet was lost, and such questions
// are a part of all at most.
func (f *Forward) mayHedge(s *server, begun time.Time) bool {
	return !s.wasHeard(begun) || f.hedges.spend(f.counts.asked.Load())
}

// hedges bound the questions that are asked twice of servers that are there: one in 25, and no more than 100 at once.
type hedges struct {
	mu    sync.Mutex // guards what follows
	asked uint64     // questions, when it was looked at last
	spent int        // in parts of a question
}

const (
	hedgeCost = 25
	mostSpent = 100 * hedgeCost
)

func (h *hedges) spend(asked uint64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.spent = max(0, h.spent-int(min(asked-h.asked, mostSpent)))
	h.asked = asked
	if h.spent+hedgeCost > mostSpent {
		return false
	}
	h.spent += hedgeCost
	return true
}

// overdue accounts for a server that said nothing in the time it had, to whatever question. Whether it is there is found out, and of
// those that are asked after it too, so that their silence is not known one after the other.
func (f *Forward) overdue(s *server, begun time.Time, others []*server) {
	_, conn := s.upgraded()
	if conn != nil && conn.wasHeard(begun) || conn == nil && s.wasHeard(begun) {
		return
	}
	f.wasSilent(s, time.Since(begun))
	f.check(s)
	for _, other := range others {
		f.check(other)
	}
}
