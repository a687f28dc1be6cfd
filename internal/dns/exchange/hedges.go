package exchange

import "sync"

// Hedges limits wasted hedges: questions to a second server that the first one answered soon after.
// A hedge costs nothing if the first server was silent to all questions or had no answer, so names
// without an answer never use up the budget of others. One question in 25 may be wasted, with
// bursts of 100.
type Hedges struct {
	mu    sync.Mutex // guards the fields below
	asked uint64     // questions at the last update
	spent int        // in units of 1/25 question
}

const (
	hedgeCost = 25
	maxSpent  = 100 * hedgeCost
)

// May reports whether the budget allows a hedge.
func (h *Hedges) May(asked uint64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.refill(asked)
	return h.spent+hedgeCost <= maxSpent
}

// Waste charges the budget for a wasted hedge.
func (h *Hedges) Waste(asked uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.refill(asked)
	h.spent += hedgeCost
}

func (h *Hedges) refill(asked uint64) {
	h.spent = max(0, h.spent-int(min(asked-h.asked, maxSpent)))
	h.asked = asked
}
