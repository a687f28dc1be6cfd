package forward

import "sync/atomic"

// A tally counts the tries of one server in one route, checks of the server apart. It outlives the table of the route. A nil tally counts
// nothing.
type tally struct {
	queries  atomic.Uint64 // tries
	failures atomic.Uint64 // of these: without an answer
}

func (c *tally) sent() {
	if c != nil {
		c.queries.Add(1)
	}
}

func (c *tally) failed() {
	if c != nil {
		c.failures.Add(1)
	}
}

// tally returns that of a server; nil for one that is not in the route, and for no route.
func (r *route) tally(s *server) *tally {
	if r == nil {
		return nil
	}
	for i, other := range r.servers {
		if other == s {
			return r.tallies[i]
		}
	}
	return nil
}

// goOnCounting gives each server a tally: that of before, the same route of an earlier table or nil, or a new one.
func (r *route) goOnCounting(before *route) {
	for _, s := range r.servers {
		c := before.tally(s)
		if c == nil {
			c = new(tally)
		}
		r.tallies = append(r.tallies, c)
	}
}
