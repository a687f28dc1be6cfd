package forward

import (
	"slices"
	"time"
)

// clear closes the tries of a landed flight that have lingered long enough, and releases the flight after the last one.
func (n *lane) clear(fl *flight) {
	if !fl.hasLanded {
		return
	}
	var due time.Time
	for _, t := range slices.Clone(fl.tries) {
		until := n.lingerUntil(t)
		switch {
		case !n.now.Before(until):
			n.expire(t)
			continue
		case !t.isLingering && !t.isProbe && n.lingering >= int(n.f.flights.max.Load()/lingerShare)+1:
			n.close(t)
			continue
		case !t.isLingering:
			t.isLingering = true
			n.lingering++
		}
		if due.IsZero() || until.Before(due) {
			due = until
		}
	}
	n.mu.Lock()
	n.setTimerLocked(fl, due)
	n.mu.Unlock()
	if len(fl.tries) == 0 {
		n.cleared(fl)
	}
}

// expire closes a try that has had its time. A probe that has had it was silent. If any other try would have fit what the flight
// landed with, its response was lost.
func (n *lane) expire(t *try) {
	fl, s, took := t.fl, t.to, n.now.Sub(t.begun)
	isOpen := !t.isClosed && !fl.isLeft && !n.closing.Load()
	isSilent := t.isProbe && isOpen && !fl.hasFailed && !t.isJudged
	isLost := !t.isProbe && isOpen && 0 < fl.octets && fl.octets <= int(t.size) && s.WasHeard(t.begun)
	n.close(t)
	if isLost {
		s.follow(s.Lost(fl.octets, n.f.deadline, time.Now()))
	}
	if isSilent {
		s.Late(time.Now())
		n.wasSilent(s, took)
		n.check(s)
	}
}

// cleared releases a landed flight without open tries.
func (n *lane) cleared(fl *flight) {
	if !fl.isCleared {
		fl.isCleared = true
		n.letGo(fl)
	}
}

// lingerUntil returns how long a try stays open after the landing. A probe has the time of an attempt.
func (n *lane) lingerUntil(t *try) time.Time {
	switch {
	case n.closing.Load() || t.stop != nil || t.fl.isLeft:
		return n.now
	case t.isProbe:
		return t.begun.Add(max(n.f.tryTimeout, 2*t.to.Usual()))
	}
	return t.fl.begun.Add(n.lifeOf(t.fl))
}

// lingerShare is how many questions of MaxInFlight one lingering try of a lane is kept for.
const lingerShare = 16
