package forward

import (
	"time"

	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/dns/exchange"
)

// The life of a question. It joins or begins a flight (ask.go): prepareLocked chooses the first
// server, and the caller sends the first query. After that, everything runs on the watcher of the
// lane, in receive.go, this file and finish.go:
//
//	answer -------------------------------------> answered -> finish: waiters and cache get it
//	silence, refusal, error, other transport ---> next -> proceed: the round names the next try
//	no try left, no server there, or too late --> fail -> finish: waiters get a refusal or error
//
// Tries that are open when a flight ends stay open for a while. A late answer updates the health
// of its server, and the cache if the flight failed.

// startTries starts the tries of a flight besides its first query: all servers at once, or probes
// of demoted servers.
func (n *lane) startTries(fl *flight) {
	if fl.first == nil && !fl.isFinished {
		n.openRound(fl)
		n.proceed(fl)
	}
	if fl.first == nil || fl.isLeft || n.closing.Load() {
		return
	}
	for _, s := range fl.route.servers {
		if s != fl.first && !fl.isTrying(s) && s.StartProbe(time.Now()) {
			n.try(fl, attempt{to: s, isProbe: true})
		}
	}
	if fl.isFinished { // the first server was fast
		n.clear(fl)
	}
}

// next handles the outcome of an attempt that is not a final answer.
func (n *lane) next(fl *flight, o outcome) {
	fl.noteOutcome(o)
	n.openRound(fl)
	r := fl.round
	switch {
	case o.isUnreadable && r.retryOverTCP(o):
	case o.isUnreadable:
	case o.isInvalid:
		if o.n == r.current.n && r.fresh && !r.again() {
			r.advance()
		}
	case o.isRedo:
		r.redo(o)
	default:
		r.ended(o)
	}
	n.proceed(fl)
}

// proceed begins the attempts that the round asks for, or ends the flight.
func (n *lane) proceed(fl *flight) {
	for {
		a, ok := fl.round.next()
		if !ok {
			break
		}
		fl.hasSecondWait = false
		wait := n.f.waitFor(a.to, fl.round.again(), a.n)
		switch {
		case fl.round.isBeforeLastResort():
			wait = max(wait, n.f.config.Silence/2)
		case a.isSmall && !fl.round.again(): // no try would be left for TCP
			wait = max(wait, n.f.config.TryTimeout)
		}
		fl.turnAt = n.now.Add(wait)
		if fl.check != nil {
			fl.turnAt = fl.begun.Add(n.f.checkWait(a.to))
		}
		n.try(fl, a)
	}
	if until := fl.begun.Add(n.f.config.TryTimeout); fl.round.refusal.msg != nil && fl.turnAt.After(until) {
		fl.turnAt = until // a refusal waits no longer than one query to another server
	}
	if fl.round.over() && !n.mayBeRefuted(fl) {
		n.fail(fl)
		return
	}
	n.schedule(fl)
}

// mayBeRefuted reports whether a refusal must wait because another server may still give a better
// answer in time.
func (n *lane) mayBeRefuted(fl *flight) bool {
	until := fl.begun.Add(n.f.config.TryTimeout)
	if len(fl.round.open) == 0 || !n.now.Before(until) {
		return false
	}
	fl.turnAt = until
	return true
}

// try begins an attempt.
func (n *lane) try(fl *flight, a attempt) {
	_, conn := a.to.upgraded()
	if a.inTheClear {
		conn = nil
	}
	n.mu.Lock()
	t := n.newTryLocked(fl, a, conn)
	n.mu.Unlock()
	fl.tries = append(fl.tries, t)
	n.send(t)
}

// schedule sets the timer of a flight to its earliest deadline.
func (n *lane) schedule(fl *flight) {
	due := fl.begun.Add(n.lifeOf(fl))
	for _, at := range [...]time.Time{fl.turnAt, fl.silentAt} {
		if !at.IsZero() && at.Before(due) {
			due = at
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if fl.hasStale && fl.releaseAt.Before(due) {
		due = fl.releaseAt
	}
	n.setTimerLocked(fl, due)
}

// ring handles a flight whose timer has fired.
func (n *lane) ring(fl *flight) {
	if fl.isFinished {
		n.clear(fl)
		return
	}
	now := n.now
	n.release(fl)
	n.openRound(fl)
	switch {
	case !now.Before(fl.begun.Add(n.lifeOf(fl))):
		n.fail(fl)
	case !now.Before(fl.silentAt) && n.isHopeless(fl):
		n.fail(fl)
	case !fl.turnAt.IsZero() && !now.Before(fl.turnAt):
		n.timeIsUp(fl)
	default:
		n.schedule(fl)
	}
}

// release passes queries that have waited long enough to the Handler, which may have a stale
// answer. The flight continues.
func (n *lane) release(fl *flight) {
	n.mu.Lock()
	var waiting []*dnsserver.PendingQuery
	if !n.now.Before(fl.releaseAt) {
		waiting = fl.releaseLocked()
	}
	n.mu.Unlock()
	dnsserver.HandleAll(waiting, &dnsserver.UpstreamResult{})
}

// isHopeless reports whether all servers of the flight are known to be dead. It checks servers that
// were silent recently and sets the time of the next look.
func (n *lane) isHopeless(fl *flight) bool {
	again := n.f.config.Silence / 3
	fl.silentAt = n.now.Add(again)
	if fl.check != nil {
		return !fl.check.WasReached(fl.begun)
	}
	isHopeless := true
	for _, s := range fl.route.servers {
		if s.IsDead() {
			continue
		}
		isHopeless = false
		if !s.WasHeard(n.now.Add(-again)) {
			n.check(s)
		}
	}
	return isHopeless
}

// timeIsUp moves on to the next attempt when the time of the current one is over.
func (n *lane) timeIsUp(fl *flight) {
	r := fl.round
	fl.turnAt = time.Time{}
	r.late = r.late || r.all
	if fl.check != nil {
		fl.check.follow(fl.check.FellSilent(fl.begun, time.Now()))
	}
	if !r.fresh || fl.check != nil {
		n.proceed(fl)
		return
	}
	s := r.current.to
	switch wasHeard := s.WasHeard(fl.begun); {
	case wasHeard && !fl.hasSecondWait && !n.f.hedges.May(n.f.counts.asked.Load()):
		fl.hasSecondWait = true
		fl.turnAt = n.now.Add(n.f.config.TryTimeout)
		n.schedule(fl)
		return
	case wasHeard && !fl.hasSecondWait:
		fl.hedgedAt = r.current.n + 1
	}
	fl.note(s.Server.String(), "has not answered yet")
	n.overdue(s, fl)
	r.timedOut()
	n.proceed(fl)
}

// overdue records that a server has answered no question since the flight began. It checks this
// server and the others of the route at the same time, so that several dead servers are found
// together.
func (n *lane) overdue(s *server, fl *flight) {
	_, conn := s.upgraded()
	if conn != nil && conn.WasHeard(fl.begun) || conn == nil && s.WasHeard(fl.begun) {
		return
	}
	if conn == nil { // wasSilent counts a failure
		for _, t := range fl.tries {
			if t.to == s && !t.isOverdue {
				t.isOverdue = true
				fl.route.tally(s).failed()
			}
		}
	}
	n.wasSilent(s, n.now.Sub(fl.begun))
	n.check(s)
	for _, other := range fl.route.servers {
		n.check(other)
	}
}

// wasSilent records silence of a server. With opportunistic TLS it checks the connection first.
func (n *lane) wasSilent(s *server, after time.Duration) {
	if u, conn := s.upgraded(); conn != nil {
		u.Check(conn, n.f.config.TryTimeout)
		return
	}
	s.timedOut(after)
}

// check queries a silent server for the root NS records, which every nameserver either knows or
// refuses. So slow names alone do not mark a server as down. It asks over UDP and TCP at the same
// time, and over UDP for a small response, because large ones may get lost. A server that accepts
// the TCP connection gets more time: servers that took 2 s for every name were marked as dead, and
// no client got an answer. With opportunistic TLS it checks the connection first, because the
// server may still answer without it.
func (n *lane) check(s *server) {
	if u, conn := s.upgraded(); conn != nil {
		u.Check(conn, n.f.config.TryTimeout)
		return
	}
	k, err := exchange.RootQuestion().AppendKey(nil)
	if err != nil || n.closing.Load() || !s.StartCheck(time.Now()) {
		return
	}
	n.mu.Lock()
	fl := n.newFlightLocked(k, 0, flightParams{now: time.Now()})
	fl.check = s
	n.mu.Unlock()
	n.openRound(fl)
	n.proceed(fl)
}
