package cluster

import (
	"errors"
	"net/http"
	"time"
)

type action uint8

const (
	list    action = iota
	watch          // from position
	check          // whether the server has reached position, after a list reported that it has not
	compare        // list, to find changes that the watch lost
)

// turn is the next step of a reflector and its parameters.
type turn struct {
	do       action
	position uint64 // version up to which everything has been reported; 0 if nothing has
	unsure   bool   // the server may have been restored from a backup since position: the watch finds out
	newest   bool   // list from etcd: the caches may be from before a restore
	failures int    // in a row
}

type outcome struct {
	version uint64 // of the list, of the server, or reached by the watch
	err     error  // nil if it completed
	lasted  time.Duration
	compare bool // a compare is due
	isSure  bool // of a watch: the server has reached position
}

// pause is a random time between two bounds.
type pause struct{ min, max time.Duration }

func (p pause) pick(chance float64) time.Duration {
	return p.min + time.Duration(chance*float64(p.max-p.min))
}

const (
	firstBackoff = time.Second
	maxBackoff   = 30 * time.Second
	// firstRejected and maxRejected are the same after 429 (API priority and fairness).
	firstRejected = 5 * time.Second
	maxRejected   = 2 * time.Minute
	// goodWatch is how long a watch must last to prove that the server works.
	goodWatch = 10 * time.Second
	// relistSpread is the time per listed object over which the nodes spread their lists when all
	// must list again, such as after a restart of the API server. The total is between minSpread
	// and maxSpread. Until then each node serves its known state.
	relistSpread = time.Millisecond
	minSpread    = 10 * time.Second
	maxSpread    = 30 * time.Second
)

// next returns the turn after t had the outcome o, and the pause before it.
func (t turn) next(o outcome, objects int) (turn, pause) {
	if o.err != nil {
		return t.afterFailure(o, objects)
	}
	n := turn{do: watch, position: t.position, unsure: t.unsure}
	switch t.do {
	case list:
		n.position, n.unsure = o.version, false
	case watch:
		n.position, n.unsure = max(t.position, o.version), t.unsure && !o.isSure
		if o.compare {
			n.do = compare
		}
	case check:
		n.failures, n.unsure = t.failures, false
		if o.version < t.position { // the server was restored from a backup
			n.do, n.position, n.newest = list, 0, true
		}
	}
	return n, pause{}
}

func (t turn) afterFailure(o outcome, objects int) (turn, pause) {
	n := t
	n.failures++
	switch t.do {
	case watch:
		spread := time.Duration(objects) * relistSpread
		switch {
		case errors.Is(o.err, errRewound): // the known state is wrong
			return turn{do: list, newest: true}, pause{max: min(spread, maxSpread)}
		case isExpired(o.err):
			return turn{do: list, position: max(t.position, o.version)}, pause{max: min(max(spread, minSpread), maxSpread)}
		}
		n.position, n.unsure = max(t.position, o.version), true
		if o.lasted >= goodWatch {
			n.failures = 1
		}
	case list, compare:
		switch {
		case isFuture(o.err): // a server that is behind, or that was restored
			n.do = check
		case isExpired(o.err):
			n.do, n.newest = list, true
		case t.do == compare:
			n.do = watch
		}
	}
	return n, backoff(n.failures, o.err)
}

// backoff returns the pause after that many failures in a row, of which err is the last: a random
// time up to a bound that doubles. All nodes wait when the server fails, and must not return at the
// same time. A server that answers 429 works, but has more requests than it can answer: most of the
// nodes must stay away until it has answered the others.
func backoff(failures int, err error) pause {
	first, most := firstBackoff, maxBackoff
	if hasCode(err, http.StatusTooManyRequests) {
		first, most = firstRejected, maxRejected
	}
	bound := min(first<<min(failures-1, 8), most)
	atLeast := retryAfter(err)
	return pause{min: atLeast + bound/8, max: atLeast + bound}
}
