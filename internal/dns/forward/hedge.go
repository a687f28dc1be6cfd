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
	return f.bounded(s.Wait(), again, n)
}

func (f *Forward) bounded(wait time.Duration, again bool, n int) time.Duration {
	most := f.tryTimeout
	if again {
		wait = max(wait, resendAfter*time.Duration(n+1))
		most = max(most, min(f.silence, 2*resendAfter+wait))
	}
	return max(min(wait, most), f.hedge)
}

// hedges bounds wasted hedges: questions to a second server where the first one had the answer soon after. A hedge costs nothing if
// the first server was silent to all questions or had no answer. So names without an answer never use up the budget of other names.
// One question in 25 may be wasted, and 100 at once.
type hedges struct {
	mu    sync.Mutex // guards what follows
	asked uint64     // questions, when it was looked at last
	spent int        // in parts of a question
}

const (
	hedgeCost = 25
	mostSpent = 100 * hedgeCost
)

// may reports whether the budget allows a hedge.
func (h *hedges) may(asked uint64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.earn(asked)
	return h.spent+hedgeCost <= mostSpent
}

// waste charges the budget for a wasted hedge.
func (h *hedges) waste(asked uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.earn(asked)
	h.spent += hedgeCost
}

func (h *hedges) earn(asked uint64) {
	h.spent = max(0, h.spent-int(min(asked-h.asked, mostSpent)))
	h.asked = asked
}
