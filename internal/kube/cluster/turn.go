package cluster

import (
	"errors"
	"time"
)

// action is what a reflector does next.
type action uint8

const (
	list    action = iota
	watch          // from position on
	check          // whether the server is at position at least, after a list that says that it is not
	compare        // list, to see what the watch has lost
)

// turn is what a reflector is about to do.
type turn struct {
	do       action
	position uint64 // the version up to which everything has been told; 0: nothing has
	unsure   bool   // the server may have been restored from a backup since position: the watch is to find out
	newest   bool   // list from etcd: what the caches have may be from before a restore
	failures int    // in a row
}

// outcome is how a turn went.
type outcome struct {
	version uint64 // of the list, of the server, or as far as the watch has come
	err     error  // nil: it went to its end
	lasted  time.Duration
	compare bool // it is time to compare
	isSure  bool // of a watch: the server has been at position at least
}

// pause is a time between two bounds, to be picked by chance.
type pause struct{ min, max time.Duration }

func (p pause) pick(chance float64) time.Duration {
	return p.min + time.Duration(chance*float64(p.max-p.min))
}

const (
	firstBackoff = time.Second
	maxBackoff   = 30 * time.Second
	// goodWatch is how long a watch has to last to show that the server is well.
	goodWatch = 10 * time.Second
	// relistSpread is, for each object of the list, how long the lists of all nodes are spread over when every node
	// has to list again, as after the restart of an API server: from minSpread up to maxSpread. Until then it serves what it knows.
	relistSpread = time.Millisecond
	minSpread    = 10 * time.Second
	maxSpread    = 30 * time.Second
)

// next decides what is done after t went as o says, and when.
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
		if o.version < t.position { // restored from a backup
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
		case errors.Is(o.err, errRewound): // what is known is wrong
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
		case isFuture(o.err): // a server that is behind, or one that was restored
			n.do = check
		case isExpired(o.err):
			n.do, n.newest = list, true
		case t.do == compare:
			n.do = watch
		}
	}
	return n, backoff(n.failures, retryAfter(o.err))
}

// backoff is how long to wait after so many failures in a row: almost any time up to a bound that doubles, because all
// nodes wait when the server fails, and must not come back as one.
func backoff(failures int, atLeast time.Duration) pause {
	bound := maxBackoff
	if failures < 6 {
		bound = min(firstBackoff<<(failures-1), maxBackoff)
	}
	return pause{min: atLeast + bound/8, max: atLeast + bound}
}
